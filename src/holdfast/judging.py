"""Answers in words and a reference answer → which of them say the same, and what a judge's errors do to an interval."""

from __future__ import annotations

import re
import unicodedata
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds import Interval, check_counts, clopper_pearson
from holdfast.errors import InvalidTypeError, InvalidValueError, ModelError
from holdfast.types import Agreement, Mask, Outputs
from holdfast.validation import (
    as_array,
    check_amount,
    check_flag,
    check_label,
    check_list,
    check_number,
    check_share,
    check_size,
    shown,
)

if TYPE_CHECKING:
    from holdfast.masking.context.llm_judge import llm_judge as llm_judge
else:

    def __getattr__(name: str) -> Any:
        """The judge that is a language model, which stands on what asks one."""
        if name != "llm_judge":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from holdfast.masking.context.llm_judge import llm_judge

        return llm_judge


Pair = tuple[str, str]
"""An answer and its reference."""

_APART = {"<super>": "^", "<fraction>": " "}
"""What keeps a digit apart from the one before it, by the kind of character; NFKC alone makes 102 of 10²."""
_END = " .,;:!?"
_PAIRS = frozenset(('""', "''", "``", "“”", "””", "‘’", "’’", "„“", "‚‘", "«»", "»«", "‹›", "()", "[]", "{}"))
_CITATION = re.compile(r"\s?\[(\d{1,4}(?:\s*[-–,;]\s*\d{1,4})*)\]")  # [2], [1, 3], [2-4]
_NUMBER = re.compile(
    r"""(?:(?<!\w)[-−])?                                                # a minus sign, not a hyphen
    (?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<![\w.])\.\d+)    # 1,200.5 or 1200.5 or .5
    (?:[eE][-+−]?\d{1,3}(?!\d))?""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class JudgeErrors:
    """How often a judge was wrong about answers that people labelled; ``judge_errors`` makes it and says what it is."""

    n_labelled: int
    false_yes: int
    false_no: int
    confidence: float = 0.95

    def __post_init__(self) -> None:
        false_yes, n = check_counts(self.false_yes, self.n_labelled, names=("false_yes", "n_labelled"))
        false_no, _ = check_counts(self.false_no, n, names=("false_no", "n_labelled"))
        check_counts(false_yes + false_no, n, names=("false_yes + false_no", "n_labelled"))
        confidence = float(check_share(self.confidence, "confidence"))
        check_share(confidence, "confidence")  # a fraction may be no other float than 0 or 1
        for name, value in zip(vars(self), (n, false_yes, false_no, confidence), strict=True):
            object.__setattr__(self, name, value)

    @property
    def upper_false_yes(self) -> float:
        """The probability that the judge says yes and people say no, at most."""
        return self._upper(self.false_yes)

    @property
    def upper_false_no(self) -> float:
        """The probability that the judge says no and people say yes, at most."""
        return self._upper(self.false_no)

    def widen(self, interval: Interval) -> Interval:
        """An interval for how often people would say yes, from one for how often the judge does."""
        return Interval(max(0.0, interval[0] - self.upper_false_yes), min(1.0, interval[1] + self.upper_false_no))

    def _upper(self, n_wrong: int) -> float:
        confidence = (1 + check_share(self.confidence, "confidence")) / 2  # half of the risk is for each kind of error
        return clopper_pearson(n_wrong, self.n_labelled, confidence=confidence, side="upper").high


def judge_errors(n_labelled: int, false_yes: int, false_no: int, *, confidence: float = 0.95) -> JudgeErrors:
    """State how often a judge was wrong about answers that people labelled, so that certificates can allow for it.

    If the judge says yes where people say no with probability p, and no where they say yes with probability q, then
    the rate by people is the rate by the judge - p + q. Let an interval contain the rate by the judge, but for a risk.
    Lowered by an upper bound of p and raised by one of q, it contains the rate by people, but for both risks added up.
    Both bounds are those of Clopper and Pearson, each with half of the judge's risk ``1 - confidence``.

    This holds if the labelled answers are an independent random sample of those that are certified: masks drawn from
    the same neighborhood of the same explanation, and judged against the same reference. If they are sampled from
    many inputs, the errors are the mean over these inputs, and so is the rate that is bounded; of a single input
    nothing is proven then. The number of labels and the judge are fixed before the labels are seen.

    Parameters
    ----------
    n_labelled : int
        Answers that people labelled as the same as their reference or not.
    false_yes, false_no : int
        How many of them the judge took for the same though people did not, and the other way round.
    confidence : float
        With which both bounds hold.

    Examples
    --------
    >>> low, high = judge_errors(200, false_yes=0, false_no=3).widen(Interval(0.85, 0.95))
    >>> round(low, 3), round(high, 3)
    (0.832, 0.993)
    """
    return JudgeErrors(n_labelled, false_yes, false_no, confidence)


class AnswerRule(Agreement):
    """A fixed rule by which two answers are the same; its name says all of it."""

    @abstractmethod
    def same(self, answer: str, reference: str) -> bool:
        """Whether two answers are the same."""

    def __call__(self, outputs: Outputs, reference: Any, /) -> Mask:
        answers = _texts(outputs, reference, self.name)
        verdicts = {answer: self.same(answer, reference) for answer in set(answers)}
        return np.array([verdicts[answer] for answer in answers], dtype=bool)


@dataclass(frozen=True)
class SameAnswer(AnswerRule):
    """Answers are the same if nothing but their spelling differs: case, spaces, the form of characters, outer marks.

    Exactly: Unicode's NFKC form of the case-folded text, but 10² is 10^2 and 2½ is 2 1⁄2; every run of white space is
    one space, and none is at the ends. Then, as long as something changes and something is left, ``. , ; : ! ?`` are
    cut off the end, and a pair of quotation marks or brackets around the whole is taken away. A sign or a point at the
    beginning counts, as in -5 or .5.
    """

    name: str = "same_answer"

    def same(self, answer: str, reference: str) -> bool:
        return normal_form(answer) == normal_form(reference)


@dataclass(frozen=True)
class SameNumber(AnswerRule):
    """The first numbers of both answers are within ``tolerance``; see ``same_number``."""

    tolerance: float = 0.0

    @property
    def name(self) -> str:
        return f"same_number({self.tolerance!r})"

    def same(self, answer: str, reference: str) -> bool:
        forms = normal_form(answer), normal_form(reference)
        number, other = map(first_number, forms)
        if number is None or other is None:
            return forms[0] == forms[1]
        return abs(number - other) <= Fraction(str(self.tolerance))


@dataclass(frozen=True)
class AcceptedAnswers(AnswerRule):
    """Both answers are among those accepted, or they are the same answer; see ``accepted_answers``."""

    answers: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"accepted_answers({list(self.answers)!r})"

    def same(self, answer: str, reference: str) -> bool:
        forms = normal_form(answer), normal_form(reference)
        return forms[0] == forms[1] or {*forms} <= {*map(normal_form, self.answers)}


@dataclass(frozen=True, eq=False)
class Judge(Agreement):
    """A function that says of pairs of an answer and its reference whether they say the same; see ``judge``.

    ``decide`` takes a list of pairs and returns as many Booleans. Pairs that are the same answer (``same_answer``)
    agree without being asked about; every other pair is asked about once and then remembered, so that the judge is
    one fixed function even if it would answer otherwise the next time.
    """

    decide: Callable[[list[Pair]], Any]
    name: str = "judge"
    errors: JudgeErrors | None = None
    _verdicts: dict[Pair, bool] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        name, errors = cast("Any", self.name), cast("Any", self.errors)
        if not isinstance(name, str) or not name.strip():
            raise InvalidTypeError(argument="name", must="be a text", got=shown(name))
        check_label(name, "name")
        if not isinstance(errors, JudgeErrors | None):
            raise InvalidTypeError(argument="errors", must="be made by `judge_errors`, or None", got=shown(errors))

    def __call__(self, outputs: Outputs, reference: Any, /) -> Mask:
        pairs = [(answer, reference) for answer in _texts(outputs, reference, self.name)]
        unknown = [pair for pair in dict.fromkeys(pairs) if pair not in self._verdicts]
        verdicts = {pair: True for pair in unknown if same_answer.same(*pair)}
        if asked := [pair for pair in unknown if pair not in verdicts]:
            verdicts |= zip(asked, self._ask(asked), strict=True)
        for pair, verdict in verdicts.items():
            self._verdicts.setdefault(pair, verdict)  # another thread may have asked too: the first answer counts
        return np.array([self._verdicts[pair] for pair in pairs], dtype=bool)

    def _ask(self, pairs: list[Pair]) -> list[bool]:
        must = f"return True or False for each of {len(pairs)} pairs of answers"
        verdicts = check_list(self.decide(pairs), self.name, must)
        if len(verdicts) != len(pairs):
            raise InvalidValueError(argument=self.name, must=must, got=len(verdicts))
        for verdict in verdicts:
            if not isinstance(verdict, (bool, np.bool_)):
                raise InvalidTypeError(argument=self.name, must=must, got=shown(verdict))
        return [bool(verdict) for verdict in verdicts]


same_answer = SameAnswer()
"""The answers are equal but for case, white space, outer quotation marks and the punctuation at the end."""


def same_number(tolerance: float = 0.0) -> SameNumber:
    """Agree when the first number of an answer is within ``tolerance`` of the first number of the reference.

    A number is digits, perhaps with commas between groups of three, a decimal point and an exponent: ``1,200``,
    ``.5``, ``84m``, ``3e8``. A minus sign counts unless a letter or digit is before it (``COVID-19`` has 19). Units
    and what follows do not count, not even a second number: ``1/2`` has 1. The comparison is exact, and a difference
    of exactly the tolerance agrees. Answers without a number agree only with the same answer.

    Examples
    --------
    >>> import numpy as np
    >>> same_number(0.5)(np.array(["about 84.5 m", "85", "not known"], dtype=object), "84 m").tolist()
    [True, False, False]
    """
    return SameNumber(check_amount(tolerance, "tolerance", may_be_zero=True))


def accepted_answers(answers: Sequence[str]) -> AcceptedAnswers:
    """Agree when both answers are among these, or are the same answer; spelling counts as little as in ``same_answer``.

    Examples
    --------
    >>> import numpy as np
    >>> accepted_answers(["84 m", "84 metres"])(np.array(["84 M.", "80 m"], dtype=object), "84 metres").tolist()
    [True, False]
    """
    must = "be a list of at least one text"
    texts = check_list(answers, "answers", must)
    for text in texts:
        if not isinstance(text, str):
            raise InvalidTypeError(argument="answers", must=must, got=f"{shown(text)} among them")
    if not texts:
        raise InvalidValueError(argument="answers", must=must, got="none")
    return AcceptedAnswers(tuple(str(text) for text in texts))


def judge(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    batched: bool = False,
    errors: JudgeErrors | None = None,
) -> Judge:
    """Agree when a function of your own says that an answer and its reference say the same.

    Parameters
    ----------
    function : callable
        Of an answer and its reference; with ``batched`` of a list of such pairs. It returns True or False, or a list
        of these. Or a rule, such as ``same_number(0.5)``, of which the errors are known.
    name : str, optional
        What certificates call it; by default the name of the function.
    batched : bool
        Whether the function takes a list of pairs.
    errors : JudgeErrors, optional
        What is known of its errors, from ``judge_errors``.

    Examples
    --------
    >>> import numpy as np
    >>> shorter = judge(lambda answer, reference: answer in reference, name="shorter")
    >>> shorter(np.array(["84", "80 metres"], dtype=object), "84 metres").tolist()
    [True, False]
    """
    known, takes_list = _name_of(function, "function"), check_flag(batched, "batched")
    decide: Any = function if takes_list else partial(_decide_each, function)
    if isinstance(function, AnswerRule):
        decide, known = partial(_decide_each, function.same), function.name
    return Judge(decide, known if name is None else name, errors)


def same_meaning(encode: Callable[[list[str]], Any], threshold: float, *, errors: JudgeErrors | None = None) -> Judge:
    """Agree when the embeddings of two answers point the same way: their cosine is at least ``threshold``.

    ``encode`` is a function from a list of texts to vectors (b, d), such as ``SentenceTransformer(…).encode``. A text
    whose vector is zero agrees with the same answer only.

    Examples
    --------
    >>> import numpy as np
    >>> letters = lambda texts: [[text.count(letter) for letter in "abc"] for text in texts]
    >>> same_meaning(letters, 0.9)(np.array(["abba", "cab"], dtype=object), "ab").tolist()
    [True, False]
    """
    known = check_number(threshold, "threshold", "be a number from -1 to 1", lambda number: -1 <= number <= 1)
    name = f"same_meaning({_name_of(encode, 'encode')}, {float(known)!r})"
    return Judge(partial(_decide_by_cosine, encode, float(known)), name, errors)


def entails(
    score: Callable[[list[Pair]], Any],
    threshold: float = 0.5,
    *,
    both_ways: bool = True,
    errors: JudgeErrors | None = None,
) -> Judge:
    """Agree when an answer entails the reference, and the reference the answer, with probability ≥ ``threshold``.

    ``score`` is a function from a list of pairs (premise, hypothesis) to probabilities (b,) that the first entails the
    second. Without ``both_ways`` only the answer must entail the reference, so that it may say more.

    Examples
    --------
    >>> import numpy as np
    >>> contains = lambda pairs: [float(hypothesis in premise) for premise, hypothesis in pairs]
    >>> answers = np.array(["84 metres tall", "tall"], dtype=object)
    >>> entails(contains, both_ways=False)(answers, "84 metres").tolist()
    [True, False]
    """
    limit = float(check_number(threshold, "threshold", "be a number from 0 to 1", lambda number: 0 <= number <= 1))
    directions = "" if check_flag(both_ways, "both_ways") else ", one way"
    name = f"entails({_name_of(score, 'score')}, {limit!r}{directions})"
    return Judge(partial(_decide_by_entailment, score, limit, both_ways), name, errors)


def read_citations(answer: str, n_passages: int) -> Mask:
    """Read which passages an answer cites, such as [2], [1, 3] or [2-4], as a mask of the passages.

    Numbers count from 1; those of no passage are refused.

    Examples
    --------
    >>> read_citations("It is 84 metres tall [2], as others say [1, 4].", n_passages=5).tolist()
    [True, True, False, True, False]
    """
    n = check_size(n_passages, "n_passages")
    if not isinstance(answer, str):
        raise InvalidTypeError(argument="answer", must="be a text", got=shown(answer))
    return cited_in(answer, n)


def without_citations(answer: str) -> str:
    """An answer without the passages that it cites."""
    return _CITATION.sub("", answer).strip()


def cited_in(answer: str, n_passages: int, *, lenient: bool = False, argument: str = "answer") -> Mask:
    """The passages that an answer cites; numbers of no passage are refused or, if lenient, left out."""
    mask = np.zeros(n_passages, dtype=bool)
    for group in _CITATION.findall(answer):
        for part in re.split(r"[,;]", group):
            numbers = [int(number) for number in re.findall(r"\d+", part)]
            if numbers[0] < 1 or numbers[-1] > n_passages or numbers[0] > numbers[-1]:
                if lenient:
                    continue
                must = f"cite passages from 1 to {n_passages}"
                raise InvalidValueError(argument=argument, must=must, got=f"[{group}]")
            mask[numbers[0] - 1 : numbers[-1]] = True
    return mask


def normal_form(answer: str) -> str:
    """What an answer is compared by; ``SameAnswer`` states the rule."""
    apart = "".join(_APART.get(unicodedata.decomposition(letter).partition(" ")[0], "") + letter for letter in answer)
    folded = unicodedata.normalize("NFKC", apart).casefold()
    text = " ".join(unicodedata.normalize("NFKC", folded).split())
    while True:
        core = text.rstrip(_END)
        core = core[1:-1].strip() if len(core) > 1 and core[0] + core[-1] in _PAIRS else core
        if core in ("", text):
            return text
        text = core


def first_number(answer: str) -> Fraction | None:
    """The first number in the normal form of an answer; ``same_number`` says what a number is."""
    match = _NUMBER.search(answer)
    return None if match is None else Fraction(Decimal(match[0].replace(",", "").replace("−", "-")))


def _texts(outputs: Outputs, reference: Any, name: str) -> list[str]:
    texts: list[Any] = outputs.tolist() if outputs.ndim == 1 else []
    if outputs.ndim != 1 or not all(isinstance(text, str) for text in (*texts, reference)):
        raise ModelError(f"`{name}` needs answers in words, but the model returns scores or other labels.")
    return texts


def _name_of(function: Any, argument: str) -> str:
    if not callable(function):
        raise InvalidTypeError(argument=argument, must="be a function", got=shown(function))
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def _decide_each(function: Callable[[str, str], Any], pairs: list[Pair]) -> list[Any]:
    return [function(*pair) for pair in pairs]


def _decide_by_cosine(encode: Callable[[list[str]], Any], threshold: float, pairs: list[Pair]) -> Mask:
    places = {text: place for place, text in enumerate(dict.fromkeys(text for pair in pairs for text in pair))}
    vectors = _numbers(encode(list(places)), "encode", (len(places), -1))
    largest = np.abs(vectors).max(axis=1, keepdims=True, initial=0.0)
    vectors = vectors / np.where(largest > 0, largest, 1.0)  # so that no square overflows
    first, second = vectors[[[places[answer], places[reference]] for answer, reference in pairs]].transpose(1, 0, 2)
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    is_near = ((first * second).sum(axis=1) >= threshold * lengths) | (first == second).all(axis=1)
    return np.asarray(is_near & (lengths > 0))


def _decide_by_entailment(
    score: Callable[[list[Pair]], Any], threshold: float, both_ways: bool, pairs: list[Pair]
) -> Mask:
    asked = pairs + [(reference, answer) for answer, reference in pairs] if both_ways else pairs
    scores = _numbers(score(asked), "score", (len(asked),))
    if not ((scores >= 0) & (scores <= 1)).all():
        got = f"numbers from {scores.min():g} to {scores.max():g}"
        raise ModelError(f"`score` must return probabilities, got {got}. Apply a sigmoid or a softmax.")
    return np.asarray((scores >= threshold).reshape(-1, len(pairs)).all(axis=0))


def _numbers(values: Any, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """What a function returned, as finite numbers of a shape in which -1 is any size."""
    must = f"return numbers of shape {str(shape).replace('-1', 'd')}"
    numbers = as_array(values, name, must, kinds="fiub").astype(np.float64)
    if numbers.ndim != len(shape) or any(size not in (-1, n) for size, n in zip(shape, numbers.shape, strict=True)):
        raise ModelError(f"`{name}` must {must}, got shape {numbers.shape}.")
    if not np.isfinite(numbers).all():
        raise ModelError(f"`{name}` must return finite numbers.")
    return numbers
