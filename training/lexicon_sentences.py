"""Sentences made of VADER's lexicon, its negations and its intensifiers, each labelled by VADER itself.

They imitate how clauses are put together, not what people say: the words of the lexicon are put where an
adjective, a verb or a noun would stand without regard to what they are. None of the bundled sentences is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from vaderSentiment import vaderSentiment

from holdfast.inputs.models.bundled import Vader

PUNCTUATION = (".", ",", "!", "?", ";", ":")


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


SUFFIXES = _words("s es d ed r er ers est ing ings ly ness ful less y able ment")
"""Endings that a word of the lexicon may have after a shorter one."""

LITTLE = _words(
    "a an the this that these those my our your his her their its some every each one two three and or so as if when"
    " while because than then also just only even still again too i you he she it we they me him us them who what which"
    " is was are were be been being am do does did have has had will would could should may might must can to of in on"
    " at by for from with about into over under after before between during through up down out off here there now"
    " today yesterday always often sometimes soon later all any both few many much other same such very how"
)

NOUNS = _words(
    "room table house street door window city train bus car road river garden office school shop hotel kitchen phone"
    " camera screen book film song story sheet letter report meeting plan price bill box bag coat shoe cup plate bread"
    " soup coffee tea water day week month year morning evening night hour weekend trip flight ticket station village"
    " doctor teacher waiter driver nurse neighbour brother sister mother father child son daughter people man woman"
    " team company staff guest customer worker service food dinner breakfast music voice colour picture game update"
    " website computer printer battery machine engine answer question idea name word thing place way time part"
    " end start work job money weather rain snow wind sun sea beach mountain lake field farm horse dog cat bird tree"
    " flower wall floor roof chair bed lamp clock map pencil actor plot scene ending speech lecture course museum"
    " concert"
)
"""Every second of them is kept out of the vocabulary, so that unknown words are learned to mean nothing."""

VERBS = _words(
    "saw took made found gave told said heard met kept left brought sent used opened closed moved turned walked ran sat"
    " stood read wrote ate drank bought sold paid built called asked showed came went looked seemed felt became stayed"
)

PLAIN = _words(
    "red blue green white black old new small large long short round early late next last first second local"
)

PREPOSITIONS = _words("in on at near behind from after before with about")

_WITHOUT_FEELING = (LITTLE, LITTLE, NOUNS[1::2], NOUNS[1::2], NOUNS, (*VERBS, *PLAIN, *PREPOSITIONS))


@dataclass(frozen=True)
class Words:
    """What sentences are made of: words with a sentiment, negations, intensifiers."""

    feelings: tuple[str, ...]
    stems: tuple[str, ...]
    negations: tuple[str, ...]
    degrees: tuple[str, ...]

    @classmethod
    def of_vader(cls) -> Words:
        """The plain words of the lexicon, and what its rules know besides."""
        lexicon = vaderSentiment.SentimentIntensityAnalyzer().lexicon
        feelings = tuple(
            sorted(word for word in lexicon if re.fullmatch("[a-z]{4,}", word) or _is_short(word, lexicon))
        )
        stems = tuple(word for word in feelings if not any(_stem(word, end) in feelings for end in SUFFIXES))
        single = [word for word in vaderSentiment.BOOSTER_DICT if re.fullmatch("[a-z]+", word)]
        return cls(feelings, stems, tuple(sorted(set(vaderSentiment.NEGATE))), tuple(sorted(single)))

    def vocabulary(self) -> list[str]:
        """Known words, without those that are a shorter one of the lexicon and an ending."""
        return sorted(
            {*self.stems, *self.negations, *self.degrees, *LITTLE, *NOUNS[::2], *VERBS, *PLAIN, *PREPOSITIONS, "but"}
        )


def _is_short(word: str, lexicon: dict[str, float]) -> bool:
    """Whether it is a word of three letters that others come from (sad: sadly; fun: funny), and no abbreviation."""
    if not re.fullmatch("[a-z]{3}", word):
        return False
    derived = any(_stem(word + end, end) == word and word + end in lexicon for end in SUFFIXES)
    return derived or any(other.startswith(word + word[-1]) for other in lexicon)


def _stem(word: str, ending: str) -> str | None:
    """The word without the ending, if it has it; a single d or r is one only after an e."""
    stem = word.removesuffix(ending)
    return stem if stem != word and len(stem) > 2 and (ending not in ("d", "r") or stem.endswith("e")) else None


def labelled(seed: int) -> Iterator[tuple[str, int]]:
    """An endless stream of sentences, each with the class VADER gives it."""
    rng, words = Random(seed), Words.of_vader()
    judge = Vader(vaderSentiment.SentimentIntensityAnalyzer())
    while True:
        text = _fragment(rng, _sentence(rng, words))
        yield text, int(judge([text])[0].argmax())


def _sentence(rng: Random, words: Words) -> str:
    """One to four clauses, joined by commas, by "and" or by "but"."""
    text = _clause(rng, words)
    for _ in range(_pick(rng, (0, 0, 0, 0, 1, 1, 1, 2, 2, 3))):
        text += _pick(rng, (", but ", ", but ", " but ", " and ", " and ", ", ", ", and ", ". ")) + _clause(rng, words)
    return text + _pick(rng, (".", ".", ".", ".", ".", ".", "!", "", "", "?"))


def _clause(rng: Random, words: Words) -> str:
    """A pattern whose capital letters are replaced by words of their kind."""
    return " ".join(filter(None, (_word(rng, words, part) for part in _pick(rng, _PATTERNS).split())))


_PATTERNS = (
    "F",
    "N F",
    "D F",
    "F and F",
    "T is D F",
    "T was N D F",
    "T was D F , F and D F",
    "T V N D F",
    "P was N D F",
    "P V T and it was D F",
    "P N D F T",
    "P D F T O W",
    "a D F S W",
    "the D F S V T",
    "there was N F O",
    "it is N a D F S",
    "so D F that P V T",
    "P V T W without F",
    "T W is D F",
    "T N V to be F",
    "W F",
    "W F W",
    "W N D F W",
    "N W",
    "W",
    "W W",
    "W V W",
    "P V W",
    "T V T O",
    "T W V W",
    "T is A W",
    "P N V T O",
    "the A S of T O",
)
"""T a thing, S its name, P a person, V a verb, A a plain adjective, O a place or a time, W some little words and
names, D a degree or nothing, N a negation or nothing, F a word of the lexicon."""


def _word(rng: Random, words: Words, part: str) -> str:
    if part == "T":
        return f"{_pick(rng, ('the', 'this', 'my', 'our', 'her', 'his', 'their', 'a', 'every'))} {_noun(rng)}"
    if part == "O":
        return f"{_pick(rng, PREPOSITIONS)} the {_noun(rng)}" if rng.random() < 0.6 else ""
    if part == "D":
        return _pick(rng, words.degrees) if rng.random() < 0.25 else _pick(rng, ("very", "really", "so", "", "", ""))
    if part == "N":
        return _negation(rng, words) if rng.random() < 0.5 else ""
    if part == "W":
        return " ".join(_plain_word(rng) for _ in range(1 + int(3 * rng.random())))
    feelings = words.stems if rng.random() < 0.5 else words.feelings
    kinds = {"S": (_noun(rng),), "V": VERBS, "A": PLAIN, "P": ("i", "we", "she", "he", "they", "you"), "F": feelings}
    return _pick(rng, kinds[part]) if part in kinds else part


def _noun(rng: Random) -> str:
    ending = "s" if rng.random() < 0.2 else ""
    before = f"{_pick(rng, PLAIN)} " if rng.random() < 0.15 else ""
    return before + _pick(rng, NOUNS) + ending


def _plain_word(rng: Random) -> str:
    """Any word without a sentiment of its own."""
    return _pick(rng, _pick(rng, _WITHOUT_FEELING))


def _negation(rng: Random, words: Words) -> str:
    common = ("not", "never", "no", "not", "hardly", "don't", "didn't", "wasn't", "isn't", "cannot")
    return _pick(rng, common) if rng.random() < 0.6 else _pick(rng, words.negations)


def _fragment(rng: Random, text: str) -> str:
    """Two of three sentences as they are; of the third, each word with a probability that is drawn first."""
    if rng.random() < 2 / 3:
        return text
    share = rng.random()
    return " ".join(part for part in text.split() if rng.random() < share)


def _pick(rng: Random, options: Sequence[Any]) -> Any:
    """By ``random`` alone, whose draws are the same in every version of Python."""
    return options[int(rng.random() * len(options))]
