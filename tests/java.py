"""Options of the JVMs that tests start, also of those in processes of their own."""

#: a JVM that starts fast: most of them live for less than it takes to compile their code well
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
