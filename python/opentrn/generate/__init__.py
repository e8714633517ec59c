"""Language models on a simulated NeuronCore: text in, text out, and the time that the device would take.

    from opentrn.generate import LanguageModel
    model = LanguageModel("smollm2")
    for piece in model.chat("What is the capital of France?", max_tokens=40):
        print(piece.text, end="", flush=True)
"""

from opentrn.generate.language_model import Answer, LanguageModel, Piece, Sampling

__all__ = ["Answer", "LanguageModel", "Piece", "Sampling"]
