"""The architectures of transformers that can be opened and written, each as two tables; relatives share a file."""

from chainrule.open_models.architecture import Architecture
from chainrule.open_models.architectures.bert import BERT, DISTILBERT, ROBERTA
from chainrule.open_models.architectures.gpt import GPT2, GPT_NEO, GPT_NEOX, OPT
from chainrule.open_models.architectures.llama import LLAMA, MISTRAL, NANOCHAT, QWEN2
from chainrule.open_models.architectures.marian import MARIAN
from chainrule.open_models.architectures.t5 import MT5, T5

ARCHITECTURES: dict[str, Architecture] = {
    architecture.model_type: architecture
    for architecture in (
        GPT2,
        LLAMA,
        MISTRAL,
        QWEN2,
        NANOCHAT,
        GPT_NEOX,
        OPT,
        GPT_NEO,
        BERT,
        DISTILBERT,
        ROBERTA,
        MARIAN,
        T5,
        MT5,
    )
}
