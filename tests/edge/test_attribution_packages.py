"""Methods that everyone compares with: the same numbers as captum and shapiq, and nothing else is changed."""

from __future__ import annotations

import warnings
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch

import holdfast as hf
from holdfast import Evaluator, attribute, mask_image, mask_text
from holdfast.attribution.methods import METHODS, check_needs, lack_of, resolve_method
from holdfast.errors import InvalidTypeError, InvalidValueError, MissingGradientsError, ModelError
from holdfast.randomness import stream
from holdfast.report.figures.style import look_of
from tests.helpers.fakes import Recorded, score_table
from tests.helpers.tiny_texts import TEXT, bert, bert_tokenizer, roberta, roberta_tokenizer

with warnings.catch_warnings():
    # What these packages warn of while they are imported is not ours to mend.
    warnings.simplefilter("ignore")
    import captum.attr
    import shapiq

N_COPIES = 2000
FAR = 5  # standard errors: of 16 features and both methods none is so far off in one of 10⁵ runs
NEW = ("gradient_x_input", "smoothgrad", "gradient_shap", "grad_cam", "rise")


def network(activation: Any = torch.nn.GELU, seed: int = 0) -> torch.nn.Module:
    """A small convolutional network with its weights fixed, in training mode as a careless caller might leave it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return torch.nn.Sequential(
            torch.nn.Conv2d(3, 6, 3, padding=1),
            activation(),
            torch.nn.Conv2d(6, 5, 3, stride=2, padding=1),
            activation(),
            torch.nn.Flatten(),
            torch.nn.Dropout(),
            torch.nn.Linear(5 * 16, 4),
        )


def linear() -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 64, 4))


def picture(seed: int = 1) -> torch.Tensor:
    return torch.rand((3, 8, 8), generator=torch.Generator().manual_seed(seed)) - 0.3


def bound(module: torch.nn.Module, **options: Any) -> Any:
    return mask_image(module, picture(), groups=(4, 4), fill=0.1, **options)


def tensors(model: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The input, the baseline and the features of an image as captum takes them."""
    images = (torch.from_numpy(part.transpose(2, 0, 1).copy())[None] for part in (model.elements, model.baseline))
    return (*images, torch.from_numpy(model.groups.copy())[None, None].repeat(1, 3, 1, 1))


def by_feature(values: Any, model: Any, *, mean: bool = False) -> Any:
    """Numbers of elements (1, C, H, W) or (1, T, d), added up one feature at a time."""
    array = np.asarray(values.detach(), dtype=np.float64)[0]
    array = np.moveaxis(array, 0, -1) if model.groups.ndim == 2 else array
    parts = [array[np.equal(model.groups, feature)] for feature in range(model.n_features)]
    return np.array([part.mean() if mean else part.sum() for part in parts])


# -- gradients --------------------------------------------------------------------------------------


def test_gradient_times_input_is_captums() -> None:
    module = network()
    model = bound(module)
    found = attribute(model, "gradient_x_input", target=2)
    theirs = captum.attr.InputXGradient(module.eval()).attribute(tensors(model)[0].requires_grad_(), target=2)
    np.testing.assert_allclose(found.scores, by_feature(theirs, model), atol=1e-6)
    assert (found.n_calls, found.rng_key) == (2, None)


def test_on_a_linear_network_noise_cannot_matter_and_both_packages_are_exact() -> None:
    module = linear().eval()
    model = bound(module)
    shown, hidden, _ = tensors(model)
    tunnel = captum.attr.NoiseTunnel(captum.attr.Saliency(module))
    theirs = tunnel.attribute(shown.requires_grad_(), nt_samples=3, stdevs=0.2, target=1, abs=False)
    smooth = attribute(model, "smoothgrad", target=1, n_samples=3, rng=0)
    np.testing.assert_allclose(smooth.scores, by_feature(theirs, model), atol=1e-5)
    theirs = captum.attr.GradientShap(module).attribute(shown, baselines=hidden, n_samples=3, target=1)
    expected = attribute(model, "gradient_shap", target=1, n_samples=3, rng=0)
    np.testing.assert_allclose(expected.scores, by_feature(theirs, model), atol=1e-5)
    assert (smooth.n_calls, expected.n_calls) == (4, 4)


@pytest.mark.parametrize("noise", [0.0, 0.15, 0.4])
def test_of_the_same_draws_both_are_what_captums_formulas_give(noise: float) -> None:
    module = network().eval()
    model = bound(module)
    shown, hidden, _ = tensors(model)
    spread = noise * float(np.ptp(model.elements))

    def draws(rng: np.random.Generator) -> torch.Tensor:
        copies = spread * rng.standard_normal((7, 8, 8, 3)) if noise else np.zeros((7, 8, 8, 3))
        return shown + torch.from_numpy(copies.transpose(0, 3, 1, 2)).float()

    def slopes(points: torch.Tensor) -> torch.Tensor:
        points = points.detach().requires_grad_()
        return torch.autograd.grad(module(points)[:, 3].sum(), points)[0]

    smooth = attribute(model, "smoothgrad", noise=noise, target=3, n_samples=7, rng=5)
    wanted = slopes(draws(stream(5, "attribution", "smoothgrad"))).mean(dim=0, keepdim=True)
    np.testing.assert_allclose(smooth.scores, by_feature(wanted, model), atol=1e-5)
    rng = stream(5, "attribution", "gradient_shap")
    places = torch.from_numpy(rng.random(7)).float()[:, None, None, None]
    copies = draws(rng)
    wanted = (slopes(hidden + places * (copies - hidden)) * (copies - hidden)).mean(dim=0, keepdim=True)
    expected = attribute(model, "gradient_shap", noise=noise, target=3, n_samples=7, rng=5)
    np.testing.assert_allclose(expected.scores, by_feature(wanted, model), atol=1e-5)


@pytest.mark.parametrize("method", ["smoothgrad", "gradient_shap"])
def test_of_other_draws_both_are_close_to_captums(method: str) -> None:
    module = network().eval()
    model = bound(module)
    shown, hidden, _ = tensors(model)
    spread = 0.3 * float(np.ptp(model.elements))
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002 - captum draws from it
    if method == "smoothgrad":
        tunnel = captum.attr.NoiseTunnel(captum.attr.Saliency(module))
        theirs = tunnel.attribute(shown.requires_grad_(), nt_samples=N_COPIES, stdevs=spread, target=1, abs=False)
    else:
        explainer = captum.attr.GradientShap(module)
        theirs = explainer.attribute(shown, baselines=hidden, n_samples=N_COPIES, stdevs=spread, target=1)
    found = attribute(model, method, noise=0.3, n_samples=N_COPIES, target=1, rng=0)
    # Scores of few copies vary as those of many do, by the square root of their number less.
    few = [attribute(model, method, noise=0.3, n_samples=20, target=1, rng=seed).scores for seed in range(100)]
    error = np.std(few, axis=0, ddof=1) * np.sqrt(20 / N_COPIES)
    assert (np.abs(found.scores - by_feature(theirs, model)) <= FAR * np.sqrt(2) * error).all()
    assert np.abs(found.scores).max() > 10 * error.max()  # or the comparison would say nothing


@pytest.mark.parametrize("method", ["smoothgrad", "gradient_shap"])
def test_draws_depend_on_the_key_alone(method: str) -> None:
    model = bound(network())
    found = attribute(model, method, noise=0.2, rng=3)
    assert found.scores.tolist() == attribute(model, method, noise=0.2, rng=found.rng_key).scores.tolist()
    np.testing.assert_allclose(attribute(model, method, noise=0.2, rng=3, batch_size=4).scores, found.scores, atol=1e-6)
    assert not np.allclose(attribute(model, method, noise=0.2, rng=4).scores, found.scores)
    with pytest.raises(InvalidValueError, match=r"^`noise` must be a number ≥ 0, got -1\."):
        attribute(model, method, noise=-1)


def test_elements_of_no_feature_get_no_noise() -> None:
    module = network()
    groups = np.where(np.arange(64).reshape(8, 8) < 16, -1, 0)
    model: Any = mask_image(module, picture(), groups=groups)
    seen = []

    class Watched:
        n_features, groups, elements, baseline = 1, model.groups, model.elements, model.baseline

        def __call__(self, masks: Any, /) -> Any:
            return model(masks)

        def gradient(self, points: Any, target: int) -> Any:
            seen.append(points)
            return model.gradient(points, target)

    attribute(Watched(), "smoothgrad", rng=0)
    points = np.concatenate(seen)
    assert (points[:, :2] == model.elements[:2]).all()
    assert (points[:, 2:] != model.elements[2:]).any()


# -- RISE -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_features", [1, 3, 10])
@pytest.mark.parametrize("keep", [0.5, 0.3])
def test_rise_of_all_masks_is_the_expected_score_where_a_feature_is_shown(n_features: int, keep: float) -> None:
    model = score_table(n_features)
    found = attribute(model, "rise", target=1, keep=keep, n_samples=2**n_features + 1)
    wanted = np.zeros(n_features)
    for mask in np.ndindex(*[2] * n_features):
        shown = np.array(mask, dtype=bool)
        chance = float(np.prod(np.where(shown, keep, 1 - keep)))
        wanted += chance * shown / keep * float(model(shown[None])[0, 1])
    np.testing.assert_allclose(found.scores, wanted, atol=1e-9)
    assert (found.n_calls, found.rng_key, found.details["exact"]) == (2**n_features, None, True)


def test_rise_of_random_masks_is_within_its_errors_of_that_of_all() -> None:
    model = score_table(10)
    exact = attribute(model, "rise", target=1, n_samples=1024).scores
    ratios = []
    for seed in range(60):
        found = attribute(model, "rise", target=1, n_samples=600, rng=seed)
        ratios.append((found.scores - exact) / found.errors)
    # The mean of 600 correlated ratios and their spread, with room of several errors of 60 independent runs.
    assert abs(np.mean(ratios)) < 0.3
    assert 0.85 < np.std(ratios) < 1.15
    with pytest.raises(InvalidValueError, match=r"^`keep` must be a number between 0 and 1, got 1\."):
        attribute(model, "rise", keep=1)


# -- Grad-CAM ---------------------------------------------------------------------------------------


def cam_by_captum(module: Any, layer: Any, image: Any, target: int, model: Any) -> Any:
    maps = captum.attr.LayerGradCam(module, layer).attribute(image, target=target, relu_attributions=True)
    size = tuple(image.shape[2:])
    enlarged = captum.attr.LayerAttribution.interpolate(maps, size, interpolate_mode="bilinear")
    return by_feature(enlarged, model, mean=True)


@pytest.mark.parametrize("target", range(4))
@pytest.mark.parametrize(("asked", "layer"), [(None, 2), ("2", 2), (0, 0), ("1", 1)])
def test_grad_cam_of_a_network_is_captums(target: int, asked: Any, layer: int) -> None:
    module = network()
    model = bound(module)
    found = attribute(model, "grad_cam", target=target, layer=asked)
    module.eval()
    wanted = cam_by_captum(module, module[layer], tensors(model)[0], target, model)
    np.testing.assert_allclose(found.scores, wanted, atol=1e-6)
    assert (found.n_calls, found.details["layer"]) == (2, str(layer))


def test_grad_cam_sees_maps_before_a_layer_changes_them_in_place() -> None:
    plain, in_place = network(torch.nn.ReLU), network(lambda: torch.nn.ReLU(inplace=True))
    for target in range(4):
        wanted = attribute(bound(plain), "grad_cam", target=target).scores
        np.testing.assert_array_equal(attribute(bound(in_place), "grad_cam", target=target).scores, wanted)


def digits(name: str, number: int = 0) -> Any:
    return hf.models.load(f"bundled:{name}").bind(hf.data.load("bundled:digits").inputs[number])


@pytest.mark.parametrize("number", [0, 4])
def test_grad_cam_of_a_real_network_is_captums(number: int) -> None:
    model = digits("digits-resnet", number)
    found = attribute(model, "grad_cam")
    module = deepcopy(model.module).eval()
    layer = dict(module.named_modules())[found.details["layer"]]
    image = torch.from_numpy(model.elements.transpose(2, 0, 1).copy())[None]
    wanted = cam_by_captum(lambda batch: module(batch).logits, layer, image, found.target, model)
    np.testing.assert_allclose(found.scores, wanted, atol=1e-6)
    assert found.scores.any()


# -- attention --------------------------------------------------------------------------------------


def rollout(attentions: Any, row: int = 0) -> Any:
    """By the definition: half of a token stays, half is attended to, layer by layer."""
    reached: Any = None
    for layer in attentions:
        heads = layer[0].detach().double().numpy()
        mixed = 0.5 * heads.mean(axis=0) + 0.5 * np.eye(heads.shape[-1])
        mixed /= mixed.sum(axis=1, keepdims=True)
        reached = mixed if reached is None else mixed @ reached
    return reached[row]


def eager(module: Any) -> Any:
    module = deepcopy(module).eval()
    module.set_attn_implementation("eager")
    return module


def test_the_rollout_of_a_vision_transformer_is_that_of_its_attention() -> None:
    model = digits("digits-vit")
    found = attribute(model, "attention_rollout")
    image = torch.from_numpy(model.elements.transpose(2, 0, 1).copy())[None]
    reached = rollout(eager(model.module)(pixel_values=image, output_attentions=True).attentions)
    patches = reached[1:].reshape(8, 8)  # patches of one pixel, after the class token
    wanted = [patches[np.equal(model.groups, feature)].sum() for feature in range(model.n_features)]
    np.testing.assert_allclose(found.scores, wanted, atol=1e-6)
    assert found.n_calls == 2
    # Attention reaches the class token itself too, and nothing is lost.
    assert found.scores.sum() == pytest.approx(1 - reached[0], abs=1e-6)


def test_a_patch_is_shared_between_features_by_their_pixels() -> None:
    whole = digits("digits-vit")
    left = np.where(np.arange(8) < 3, 0, 1)[None].repeat(8, axis=0)
    coarse: Any = mask_image(whole.module, whole.elements, groups=left)
    pixels: Any = mask_image(whole.module, whole.elements, groups=np.arange(64).reshape(8, 8))
    found, fine = (attribute(model, "attention_rollout").scores for model in (coarse, pixels))
    heat = fine.reshape(8, 8)
    np.testing.assert_allclose(found, [heat[:, :3].sum(), heat[:, 3:].sum()], atol=1e-9)


@pytest.mark.parametrize("features", ["tokens", "words"])
def test_the_rollout_of_a_text_is_that_of_its_attention(features: str) -> None:
    classifier = hf.models.load("bundled:lexicon-roberta")
    text = "what a wonderful and terrible, terrible day"
    model: Any = mask_text(
        classifier.engine.runner.module, text, tokenizer=classifier.engine.tokenizer, features=features
    )
    found = attribute(model, "attention_rollout")
    batch = {name: row[None] for name, row in model.tokens.fields.items()}
    reached = rollout(eager(model.module)(**batch, output_attentions=True).attentions)
    wanted = [reached[np.equal(model.groups, feature)].sum() for feature in range(model.n_features)]
    np.testing.assert_allclose(found.scores, wanted, atol=1e-6)


def test_where_attention_looks_back_only_the_last_token_is_the_one_that_is_classified() -> None:
    from transformers import GPT2Config, GPT2ForSequenceClassification

    tokenizer = roberta_tokenizer()
    config = GPT2Config(n_embd=16, n_layer=2, n_head=2, vocab_size=40, n_positions=32, pad_token_id=1, num_labels=3)
    torch.manual_seed(0)
    module = GPT2ForSequenceClassification(config)
    model: Any = mask_text(module, TEXT, tokenizer=tokenizer)
    found = attribute(model, "attention_rollout")
    batch = {name: row[None] for name, row in model.tokens.fields.items()}
    reached = rollout(eager(module)(**batch, output_attentions=True).attentions, row=-1)
    np.testing.assert_allclose(found.scores, [reached[model.groups == i].sum() for i in range(model.n_features)])
    assert (found.scores > 0).all()


def test_a_transformer_that_keeps_its_attention_to_itself_is_refused() -> None:
    class Silent(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.config = bert(), bert().config

        def get_input_embeddings(self) -> Any:
            return self.inner.get_input_embeddings()

        def forward(self, **batch: Any) -> Any:
            return self.inner(**{name: row for name, row in batch.items() if name != "output_attentions"}).logits

    model = mask_text(Silent(), TEXT, tokenizer=bert_tokenizer())
    with pytest.raises(ModelError, match="'attention_rollout' needs one attention matrix per layer and head"):
        attribute(model, "attention_rollout")


# -- what methods need ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "lack"),
    [
        ("gradient_x_input", "needs a model with gradients.*, got Recorded"),
        ("grad_cam", "needs a convolutional network.*, got Recorded"),
        ("attention_rollout", "needs a transformer of Hugging Face.*, got Recorded"),
        ("captum:DeepLift", "needs a PyTorch module bound by `mask_image` or `mask_text`, got Recorded"),
    ],
)
def test_models_that_lack_what_a_method_needs_are_told_what_works(method: str, lack: str) -> None:
    model = Recorded(score_table(5))
    with pytest.raises(MissingGradientsError, match=f"`method='{method}'` {lack}.*'lime', 'shap' and 'occlusion'"):
        attribute(model, method)
    assert model.n_rows == 0
    with pytest.raises(MissingGradientsError, match=lack):
        check_needs(Evaluator(model), method)


def test_networks_say_what_they_lack() -> None:
    text: Any = mask_text(bert(), TEXT, tokenizer=bert_tokenizer())
    vit, cnn = digits("digits-vit"), bound(network())
    needs = ("masks", "gradients", "activations", "attentions", "network")
    lacking = [[need for need in needs if lack_of(model, need)] for model in (score_table(3), text, vit, cnn)]
    assert lacking == [list(needs[1:]), ["activations"], ["activations"], ["attentions"]]
    with pytest.raises(MissingGradientsError, match="got ViTForImageClassification, which has no convolution with"):
        attribute(vit, "grad_cam")
    with pytest.raises(MissingGradientsError, match="got a text, which has no pixels"):
        attribute(text, "grad_cam")
    with pytest.raises(MissingGradientsError, match=r"got Sequential, which has no `config\.num_att"):
        attribute(cnn, "attention_rollout")


def test_impossible_layers_are_refused() -> None:
    model = bound(network())
    with pytest.raises(InvalidValueError, match=r"^`layer` must be a name of `module.named_modules\(\)`, got '9'"):
        attribute(model, "grad_cam", layer="9")
    with pytest.raises(
        InvalidValueError, match=r"^`layer` must name a layer with an output \(b, C, h, w\) larger than 1×1"
    ):
        attribute(model, "grad_cam", layer="6")


def test_every_method_has_a_need_and_its_options_are_known_without_running() -> None:
    for name, (_, need) in METHODS.items():
        assert resolve_method(name).needs == need
    assert resolve_method("smoothgrad").options == ("noise",)
    assert resolve_method("captum:Occlusion").options == ("sliding_window_shapes", "strides", "perturbations_per_eval")
    assert resolve_method("captum:NoiseTunnel").options is None
    assert resolve_method("shapiq:KernelSHAP").options == ("pairing_trick", "sampling_weights")
    assert resolve_method(captum.attr.LayerGradCam)[::2] == ("captum:LayerGradCam", "network")
    looks = [look_of(name, place) for place, name in enumerate([*METHODS, "captum:Lime", "shapiq:SVARM"])]
    assert len(set(looks)) == len(METHODS) + 2


# -- captum -----------------------------------------------------------------------------------------

IMAGE_CASES: dict[str, dict[str, Any]] = {
    "IntegratedGradients": {"n_steps": 20},
    "GradientShap": {"n_samples": 7, "stdevs": 0.1},
    "InputXGradient": {},
    "DeepLift": {},
    "DeepLiftShap": {},
    "FeatureAblation": {},
    "KernelShap": {"n_samples": 60},
    "ShapleyValueSampling": {"n_samples": 3},
    "GuidedBackprop": {},
    "Occlusion": {"sliding_window_shapes": (3, 2, 2)},
}


def call_captum(kind: str, forward: Any, model: Any, parts: Any, seed: int | None, **options: Any) -> Any:
    """The class by hand; with the seed that the result tells."""
    shown, hidden, features = parts
    is_masked = kind in ("FeatureAblation", "KernelShap", "ShapleyValueSampling")
    if kind not in ("InputXGradient", "GuidedBackprop"):
        options["baselines"] = torch.cat([hidden, hidden]) if kind == "DeepLiftShap" else hidden
    if is_masked:
        options["feature_mask"] = features
    if seed is not None:
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002 - captum draws from it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = getattr(captum.attr, kind)(forward).attribute(shown.clone(), target=1, **options)
    return by_feature(values, model, mean=is_masked)


@pytest.mark.parametrize("kind", IMAGE_CASES)
def test_a_class_of_captum_gives_what_it_gives_by_hand_on_an_image(kind: str) -> None:
    options = IMAGE_CASES[kind]
    module = network(torch.nn.ReLU)
    model = bound(module)
    found = attribute(model, f"captum:{kind}", target=1, rng=0, **options)
    wanted = call_captum(kind, module.eval(), model, tensors(model), found.details.get("seed"), **options)
    np.testing.assert_allclose(found.scores, wanted, atol=2e-6)
    assert found.scores.any()
    assert found.method == f"captum:{kind}"
    assert (found.rng_key is not None) == (kind in ("GradientShap", "KernelShap", "ShapleyValueSampling"))
    assert hf.recheck(model, hf.Attribution.from_json(found.to_json())).confirmed


@pytest.mark.parametrize("kind", ["IntegratedGradients", "InputXGradient", "FeatureAblation", "ShapleyValueSampling"])
@pytest.mark.parametrize(("make", "tokenizer"), [(bert, bert_tokenizer), (roberta, roberta_tokenizer)])
def test_a_class_of_captum_gives_what_it_gives_by_hand_on_a_text(kind: str, make: Any, tokenizer: Any) -> None:
    module = make()
    model: Any = mask_text(module, TEXT, tokenizer=tokenizer(), features="words")
    found = attribute(model, f"captum:{kind}", target=1, rng=0)
    module.eval()
    rest = {name: row[None] for name, row in model.tokens.fields.items() if name != "input_ids"}

    def forward(embeddings: torch.Tensor) -> torch.Tensor:
        batch = {name: row.expand(len(embeddings), -1) for name, row in rest.items()}
        return module(inputs_embeds=embeddings, **batch).logits

    shown, hidden = (torch.from_numpy(part)[None] for part in (model.elements, model.baseline))
    # Tokens that are always shown are one more feature, the same in the baseline.
    groups = np.where(model.groups < 0, model.n_features, model.groups)
    features = torch.from_numpy(groups)[None, :, None].expand(shown.shape).contiguous()
    wanted = call_captum(kind, forward, model, (shown, hidden, features), found.details.get("seed"))
    np.testing.assert_allclose(found.scores, wanted, atol=1e-4 * np.abs(wanted).max())


def test_ablation_of_features_by_captum_is_occlusion_also_beside_pixels_that_are_always_shown() -> None:
    groups = np.arange(64).reshape(8, 8) // 16
    groups[0] = -1
    model = mask_image(network(), picture(), groups=groups, fill="mean")
    theirs, ours = (attribute(model, method, target=1) for method in ("captum:FeatureAblation", "occlusion"))
    np.testing.assert_allclose(theirs.scores, ours.scores, atol=1e-6)


def test_maps_of_a_layer_are_enlarged_and_averaged() -> None:
    model = bound(network())
    for target in range(4):
        ours = attribute(model, "grad_cam", target=target, layer="2")
        theirs = attribute(model, "captum:LayerGradCam", target=target, layer="2", relu_attributions=True)
        np.testing.assert_allclose(theirs.scores, ours.scores, atol=1e-6)
    text: Any = mask_text(bert(), TEXT, tokenizer=bert_tokenizer())
    layer = attribute(text, "captum:LayerActivation", layer="bert.encoder.layer.0.output")
    assert layer.n_features == text.n_features


def test_a_method_made_of_another_is_given_it_by_name() -> None:
    model = bound(network())
    options = {"attribution_method": "Saliency", "stdevs": 0.2, "abs": False, "nt_type": "smoothgrad"}
    found = attribute(model, "captum:NoiseTunnel", n_samples=6, rng=1, **options)
    assert found.n_calls == 7
    assert hf.recheck(model, found).confirmed
    own = attribute(
        model, "captum:NoiseTunnel", n_samples=6, rng=1, **{**options, "attribution_method": captum.attr.Saliency}
    )
    np.testing.assert_array_equal(own.scores, found.scores)
    with pytest.raises(
        InvalidValueError, match="`result` must have settings that a file can store; attribution_method"
    ):
        hf.recheck(model, own)


def test_rows_that_captum_computes_are_counted() -> None:
    module, n_rows = network(), 0

    def count(_part: Any, inputs: Any) -> None:
        nonlocal n_rows
        n_rows += len(inputs[0])

    module.register_forward_pre_hook(count)
    for method, options in {
        "IntegratedGradients": {"n_steps": 13},
        "DeepLift": {},
        "KernelShap": {"n_samples": 9},
    }.items():
        n_rows = 0
        assert attribute(bound(module), f"captum:{method}", rng=0, **options).n_calls == n_rows
    n_rows = 0
    again = hf.reexplain(bound(module, batch_size=8), "captum:GradientShap", n_repeats=2, radius=2, rng=0)
    assert again.n_calls == n_rows


def test_a_class_itself_is_as_good_as_its_name() -> None:
    model = bound(network())
    assert attribute(model, captum.attr.GradientShap, rng=2) == attribute(model, "captum:GradientShap", rng=2)
    table = score_table(11)
    named = attribute(table, "shapiq:PermutationSamplingSV", rng=2)
    assert attribute(table, shapiq.PermutationSamplingSV, rng=2) == named
    assert attribute(table, shapiq.PermutationSamplingSV, rng=3) != named
    for other in (captum.attr.LLMAttribution, captum.attr.Saliency(network()), dict):
        with pytest.raises(InvalidTypeError, match=r"^`method` must be one of lime, shap"):
            attribute(model, other)


@pytest.mark.parametrize(
    ("method", "options", "error", "message"),
    [
        (
            "captum:Occlusion",
            {},
            InvalidTypeError,
            "`method='captum:Occlusion'` needs the option `sliding_window_shapes`.",
        ),
        ("captum:LayerGradCam", {}, InvalidTypeError, "`method='captum:LayerGradCam'` needs the option `layer`."),
        (
            "captum:LayerGradCam",
            {"layer": 9},
            InvalidValueError,
            r"`layer` must be a name of `module.named_modules\(\)`",
        ),
        (
            "captum:Saliency",
            {"n_steps": 3},
            InvalidTypeError,
            "`n_steps` is not an option of 'captum:Saliency', which takes `abs`.",
        ),
        (
            "captum:Saliency",
            {"n_samples": 3},
            InvalidTypeError,
            "`n_samples` is not an option of 'captum:Saliency', which takes no",
        ),
        ("captum:DeepLyft", {}, InvalidValueError, "after 'captum:', got 'DeepLyft'. Did you mean 'DeepLift'?"),
        ("captum:FeaturePermutation", {}, InvalidValueError, "`method` must name a class of captum.attr"),
        ("captum:LLMAttribution", {}, InvalidValueError, "`method` must name a class of captum.attr"),
        (
            "captum:Occlusion",
            {"sliding_window_shapes": [9, 1, 1], "strides": 0},
            InvalidValueError,
            "`method='captum:Occlusion'` was refused by captum",
        ),
        ("shapiq:KernelShap", {}, InvalidValueError, "after 'shapiq:', got 'KernelShap'. Did you mean 'KernelSHAP'?"),
        ("shapiq:PermutationSamplingSTII", {}, InvalidTypeError, "needs the option `max_order`."),
        ("shapiq:KernelSHAP", {"depth": 2}, InvalidTypeError, "`depth` is not an option of 'shapiq:KernelSHAP'"),
        (
            "shapiq:KernelSHAP",
            {"n_samples": 5},
            InvalidValueError,
            "`n_samples` must be at least 34 for 'shapiq:KernelSHAP'",
        ),
        (
            "quantus:Lime",
            {},
            InvalidValueError,
            "`method` must be one of .* Or captum:… for a class of captum.attr, or shapiq:…",
        ),
    ],
)
def test_what_other_packages_cannot_do_is_said_in_a_sentence(
    method: str, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        attribute(bound(network()), method, **options)


def test_calls_of_captum_have_a_time_limit_each() -> None:
    model = bound(network())
    limited = attribute(Evaluator(model, timeout=60), "captum:GradientShap", rng=0)
    np.testing.assert_array_equal(limited.scores, attribute(model, "captum:GradientShap", rng=0).scores)


# -- shapiq -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_features", [2, 5, 8])
@pytest.mark.parametrize("kind", ["KernelSHAP", "SVARM", "UnbiasedKernelSHAP", "kADDSHAP"])
def test_approximators_with_all_masks_give_exact_shapley_values(kind: str, n_features: int) -> None:
    model = score_table(n_features, seed=3)
    found = attribute(model, f"shapiq:{kind}", target=1, rng=0)
    np.testing.assert_allclose(found.scores, attribute(model, "shap", target=1).scores, atol=1e-5)
    assert found.n_calls == 2**n_features
    assert found.details["exact"]


def test_an_approximator_gives_what_it_gives_by_hand() -> None:
    evaluator = Evaluator(score_table(10, seed=3))
    made = shapiq.PermutationSamplingSV(n=10, random_state=4)
    found = attribute(evaluator, made, target=1, n_samples=300)
    again = shapiq.PermutationSamplingSV(n=10, random_state=4).approximate(300, hf.as_shapiq_game(evaluator, target=1))
    np.testing.assert_array_equal(found.scores, [again[(i,)] for i in range(10)])
    assert (found.method, found.rng_key) == ("shapiq:PermutationSamplingSV", None)
    with pytest.raises(InvalidValueError, match="`result` must have settings that a file can store; approximator"):
        hf.recheck(evaluator, found)
    with pytest.raises(InvalidValueError, match="`method` must be an approximator for 10 players, got 9"):
        attribute(evaluator, shapiq.KernelSHAP(n=9))
    drawn = attribute(evaluator, "shapiq:SVARM", target=1, n_samples=200, rng=6)
    assert drawn.scores.tolist() == attribute(evaluator, "shapiq:SVARM", target=1, n_samples=200, rng=6).scores.tolist()
    assert hf.recheck(evaluator, drawn).confirmed


# -- nothing else changes ---------------------------------------------------------------------------


def state_of(module: torch.nn.Module) -> list[Any]:
    """All that a method could leave behind in a module."""
    hooks = [
        (len(part._forward_hooks), len(part._forward_pre_hooks), len(part._backward_hooks), sorted(vars(part)))
        for part in module.modules()
    ]
    weights = [
        (tensor.data_ptr(), tensor._version, tensor.requires_grad, tensor.grad) for tensor in module.parameters()
    ]
    chosen = getattr(getattr(module, "config", None), "_attn_implementation", None)
    return [hooks, weights, [part.training for part in module.modules()], chosen]


def global_state() -> list[Any]:
    numbers = np.random.get_state()  # noqa: NPY002 - it is what must not change
    return [numbers[1].tolist(), numbers[2], torch.get_rng_state().tolist(), torch.is_grad_enabled()]  # type: ignore[index,union-attr]


CAPTUM = ("GradientShap", "DeepLift", "GuidedBackprop", "KernelShap", "InputXGradient")


@pytest.mark.parametrize("method", [*NEW, *(f"captum:{kind}" for kind in CAPTUM)])
def test_methods_leave_a_network_and_all_generators_as_they_were(method: str) -> None:
    module = network(torch.nn.ReLU)
    next(module.parameters()).requires_grad_(False)
    module[0].eval()
    model = bound(module)
    before, outside = state_of(module), global_state()
    first = attribute(model, method, rng=0)
    assert state_of(module) == before
    assert global_state() == outside
    torch.rand(3)
    np.random.random(3)  # noqa: NPY002
    np.testing.assert_allclose(attribute(model, method, rng=0).scores, first.scores, atol=1e-6)


@pytest.mark.parametrize("method", ["gradient_x_input", "grad_cam", "captum:IntegratedGradients"])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_the_gradient_mode_of_the_caller_makes_no_difference(method: str, mode: Any) -> None:
    wanted = attribute(bound(network()), method, target=1).scores
    module = network()
    with mode():
        np.testing.assert_allclose(attribute(bound(module), method, target=1).scores, wanted, atol=1e-7)


def test_half_precision_is_explained_as_well() -> None:
    wanted = attribute(bound(network()), "grad_cam", target=1).scores
    half = bound(network().bfloat16(), dtype="bfloat16")
    np.testing.assert_allclose(attribute(half, "grad_cam", target=1).scores, wanted, atol=0.02)
    assert attribute(half, "captum:DeepLift", target=1).scores.any()


def test_captum_leaves_a_network_as_it_was_when_it_fails() -> None:
    module = network(torch.nn.ReLU)
    model = bound(module)
    before, outside = state_of(module), global_state()
    with pytest.raises(TypeError, match="has no rule defined"):
        attribute(model, "captum:LRP")
    assert (state_of(module), global_state()) == (before, outside)


def test_relevance_that_replaces_weights_leaves_those_of_the_network() -> None:
    module = Flattening()
    model = mask_image(module, picture(), groups=(4, 4))
    before = state_of(module)
    assert attribute(model, "captum:LRP").scores.any()
    assert state_of(module) == before


class Flattening(torch.nn.Module):
    """A network of layers for which captum has rules of relevance."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.cut, self.last = torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Linear(144, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.last(self.cut(self.first(images)).flatten(1))


@pytest.mark.parametrize("make", ["vit", "text"])
def test_attention_is_asked_of_a_twin(make: str) -> None:
    model = digits("digits-vit") if make == "vit" else mask_text(bert(), TEXT, tokenizer=bert_tokenizer())
    before, outside = state_of(model.module), global_state()
    assert model.module.config._attn_implementation == "sdpa"
    attribute(model, "attention_rollout")
    assert state_of(model.module) == before
    assert global_state() == outside
