"""Do the citations of a RAG pipeline hold fast? The bundled questions, answered by any OpenAI-compatible endpoint.

    python examples/citations.py http://127.0.0.1:8000/v1 qwen3        # ten questions; answers are kept in answers.db
    python examples/citations.py                                       # without a model: a stand-in that reads

Prints, for each question, how often the answer stays when other passages are shown beside the cited ones, how often it
is lost without them, and the fewest passages that change it.
"""

from __future__ import annotations

import sys

import holdfast as hf


def main(words: list[str], n_questions: int = 10) -> None:
    questions = hf.data.load("bundled:contexts").inputs[:n_questions]
    for question in questions:
        model = hf.Endpoint(*words, cache="answers.db", max_tokens=32) if words else stand_in(question)
        context = hf.mask_context(model, question.passages, question=question.question)
        print(f"\n{question.question}")
        print(hf.certify_citations(context, list(question.cited), radius=2, rng="canonical"))


def stand_in(question):
    """Answers rightly if all that the answer rests on is shown."""

    def answer(prompt: str) -> str:
        is_there = all(question.passages[number - 1] in prompt for number in question.cited)
        return question.answer if is_there else "I do not know"

    return answer


if __name__ == "__main__":
    main(sys.argv[1:])
