"""N-gram models on a Spark cluster: counts, models, scores. The driver and the workers need chainrule and pyspark.

good:  chainrule.spark.train(session, "s3a://bucket/texts", chainrule.NGramConfig(order=5)).save("lm/")
good:  chainrule.spark.train(session, session.read.parquet("corpus").select("text"))
good:  chainrule.spark.score(session.read.parquet("corpus"), "lm/", column="text").where("score < 8")
"""

from chainrule.features.spark.scoring import Likelihood, evaluate, filter, score
from chainrule.features.spark.session import local_session
from chainrule.features.spark.training import check_training, count, train

__all__ = ["Likelihood", "check_training", "count", "evaluate", "filter", "local_session", "score", "train"]
