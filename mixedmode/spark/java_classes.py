"""Classes of Spark's JVM, by their names.

py4j's own way, `jvm.org.apache.spark.SparkContext`, asks the JVM what each part of the name is, and Java looks for a
class of that name in each of its 300 jars. A whole name is not asked for.
"""

from typing import Any

from py4j.java_gateway import JavaClass
from pyspark import SparkContext

__all__ = ["is_instance", "java_class"]


def java_class(context: SparkContext, name: str) -> Any:
    """Return a class by its whole name. If there is none, its first call raises Py4JError."""
    gateway: Any = context._gateway
    return JavaClass(name, gateway._gateway_client)


def is_instance(context: SparkContext, found: Any, name: str) -> bool:
    """Return whether an object of the JVM is an instance of the class with this whole name."""
    return bool(java_class(context, "py4j.reflection.TypeUtil").isInstanceOf(name, found))
