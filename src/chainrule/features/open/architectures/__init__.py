"""The architectures of transformers that can be opened and written, each as two tables; relatives share a file."""

from chainrule.features.open.architecture import Architecture
from chainrule.features.open.architectures.cohere import COHERE, COHERE2, GLM, GLM4
from chainrule.features.open.architectures.deepseek import DEEPSEEK_V2, DEEPSEEK_V3, GLM4_MOE_LITE
from chainrule.features.open.architectures.delta import QWEN3_5, QWEN3_5_MOE, QWEN3_NEXT
from chainrule.features.open.architectures.encoders.bert import (
    BERT,
    BERT_WITH_PAIRS,
    CAMEMBERT,
    DISTILBERT,
    ELECTRA,
    MODERNBERT,
    MPNET,
    ROBERTA,
    XLM_ROBERTA,
)
from chainrule.features.open.architectures.encoders.bert_kin import ALBERT, DEBERTA_V2, DEBERTA_V2_LM
from chainrule.features.open.architectures.encoders.rotated import EUROBERT, GTE, JINA3, NOMIC_BERT
from chainrule.features.open.architectures.gemma import GEMMA, GEMMA2, GEMMA3
from chainrule.features.open.architectures.gemma4 import GEMMA4
from chainrule.features.open.architectures.gpt import (
    BLOOM,
    FALCON,
    GPT2,
    GPT_BIGCODE,
    GPT_NEO,
    GPT_NEOX,
    GPTJ,
    OPT,
)
from chainrule.features.open.architectures.gpt_oss import GPT_OSS
from chainrule.features.open.architectures.hybrids import FALCON_H1, GRANITE4, NEMOTRON_H
from chainrule.features.open.architectures.llama import (
    ERNIE4_5,
    GRANITE,
    LLAMA,
    MISTRAL,
    MIXTRAL,
    NANOCHAT,
    QWEN2,
    QWEN3,
    QWEN3_MOE,
    SMOLLM3,
)
from chainrule.features.open.architectures.llama_kin import (
    ARCEE,
    HELIUM,
    HUNYUAN,
    INTERNLM3,
    MINISTRAL3,
    NEMOTRON,
    SEED_OSS,
)
from chainrule.features.open.architectures.olmo import EXAONE4, OLMO, OLMO2, OLMO3, OLMOE
from chainrule.features.open.architectures.pairs.bart import BART, M2M_100, MBART
from chainrule.features.open.architectures.pairs.marian import MARIAN
from chainrule.features.open.architectures.pairs.t5 import MT5, T5
from chainrule.features.open.architectures.phi import PHI, PHI3, STABLELM, STARCODER2
from chainrule.features.open.architectures.recurrent import FALCON_MAMBA, LFM2, LFM2_MOE, MAMBA, MAMBA2, RWKV
from chainrule.features.open.architectures.shared_experts import GLM4_MOE, GRANITE_MOE, GRANITE_MOE_SHARED, QWEN2_MOE

ARCHITECTURES: dict[str, Architecture] = {
    architecture.model_type: architecture
    for architecture in (
        GPT2,
        LLAMA,
        MISTRAL,
        QWEN2,
        QWEN3,
        GEMMA,
        GEMMA2,
        GEMMA3,
        GEMMA4,
        SMOLLM3,
        PHI,
        PHI3,
        OLMO,
        OLMO2,
        OLMO3,
        OLMOE,
        GRANITE,
        STARCODER2,
        STABLELM,
        MIXTRAL,
        QWEN2_MOE,
        QWEN3_MOE,
        GLM4_MOE,
        DEEPSEEK_V2,
        DEEPSEEK_V3,
        GLM4_MOE_LITE,
        GRANITE_MOE,
        GRANITE_MOE_SHARED,
        GRANITE4,
        FALCON_H1,
        NEMOTRON_H,
        GPT_OSS,
        COHERE,
        COHERE2,
        GLM,
        GLM4,
        ERNIE4_5,
        EXAONE4,
        FALCON,
        GPTJ,
        BLOOM,
        LFM2,
        LFM2_MOE,
        MAMBA,
        MAMBA2,
        FALCON_MAMBA,
        RWKV,
        QWEN3_5,
        QWEN3_5_MOE,
        QWEN3_NEXT,
        NANOCHAT,
        ARCEE,
        SEED_OSS,
        HELIUM,
        INTERNLM3,
        MINISTRAL3,
        NEMOTRON,
        HUNYUAN,
        GPT_NEOX,
        OPT,
        GPT_NEO,
        GPT_BIGCODE,
        BERT,
        DISTILBERT,
        ROBERTA,
        XLM_ROBERTA,
        CAMEMBERT,
        MPNET,
        ELECTRA,
        MODERNBERT,
        EUROBERT,
        NOMIC_BERT,
        GTE,
        JINA3,
        ALBERT,
        DEBERTA_V2,
        MARIAN,
        BART,
        MBART,
        M2M_100,
        T5,
        MT5,
    )
}

# Of the same model_types, with tensors of other names.
VARIANTS = (BERT_WITH_PAIRS, DEBERTA_V2_LM)
