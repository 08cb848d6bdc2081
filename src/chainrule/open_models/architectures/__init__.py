"""The architectures of transformers that can be opened and written, each in a file with its two tables."""

from chainrule.open_models.architecture import Architecture
from chainrule.open_models.architectures.bert import BERT
from chainrule.open_models.architectures.distilbert import DISTILBERT
from chainrule.open_models.architectures.gpt2 import GPT2
from chainrule.open_models.architectures.gpt_neo import GPT_NEO
from chainrule.open_models.architectures.gpt_neox import GPT_NEOX
from chainrule.open_models.architectures.llama import LLAMA, MISTRAL, QWEN2
from chainrule.open_models.architectures.marian import MARIAN
from chainrule.open_models.architectures.nanochat import NANOCHAT
from chainrule.open_models.architectures.opt import OPT
from chainrule.open_models.architectures.roberta import ROBERTA
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
