"""Reading YAML: dotted and nested keys mean the same, nothing is dropped silently, and every value knows its place."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.config.document import Document
from mixedmode.config.reader import read_document
from mixedmode.errors import InvalidJobError

NOT_YAML = (
    "this is not valid YAML. Check the indentation, quotes and brackets here, and the space after the colon of each "
    "key. A text needs quotes if it has `: ` in it, if it is `*`, and, between { and }, if it has commas, brackets or "
    "braces. YAML says: "
)
SEQUENCE = "while parsing a flow sequence that begins in line"
FROM_LINE = "that begins in line"
HALF = "this is not Unicode text: it has one half of a character (U+D800 to U+DFFF). Write the character itself."


def read(text: str, *overrides: str) -> Document:
    return read_document(text, "job.yaml", overrides)


def problems(text: str, *overrides: str) -> list[str]:
    return [str(problem) for problem in read(text, *overrides).problems]


def test_dotted_keys_add_to_nested_sections_at_any_level() -> None:
    document = read(
        "execution.checkpointing.interval: 1s\n"
        "execution:\n"
        "  runtime-mode: mixed\n"
        "  checkpointing.dir: ./run\n"
        "  checkpointing: {interval-during-backlog: 0}\n"
    )
    assert document.problems == []
    assert document.values == {
        "execution": {
            "checkpointing": {"interval": "1s", "dir": "./run", "interval-during-backlog": 0},
            "runtime-mode": "mixed",
        }
    }
    places = {path: str(mark) for path, mark in document.marks.items()}
    assert places == {
        "": "job.yaml:1",
        "execution": "job.yaml:1",
        "execution.checkpointing": "job.yaml:1",
        "execution.checkpointing.interval": "job.yaml:1",
        "execution.runtime-mode": "job.yaml:3",
        "execution.checkpointing.dir": "job.yaml:4",
        "execution.checkpointing.interval-during-backlog": "job.yaml:5",
    }


def test_what_was_not_given_has_the_place_of_the_section_around_it() -> None:
    document = read("\nname: a\nsteps:\n  - sql: SELECT 1\n  - key-by: [a]\n    aggregate: {n: count(*)}\n")
    assert str(document.mark(("steps", 1, "aggregate", "n"))) == "job.yaml:6"
    assert str(document.mark(("steps", 1, "key-by", 0))) == "job.yaml:5"
    assert str(document.mark(("steps", 1, "name"))) == "job.yaml:5"
    assert str(document.mark(("sink", "path"))) == "job.yaml:2"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: a\nname: b", ["job.yaml:2: name is given twice, first at job.yaml:1. Keep one of the two."]),
        (
            "execution: {backlog: {parallelism: 1}}\n\nexecution.backlog.parallelism: 1",
            ["job.yaml:3: execution.backlog.parallelism is given twice, first at job.yaml:1. Keep one of the two."],
        ),
        (
            "execution:\n  backlog.parallelism: 1\n  backlog: {parallelism: 2}",
            ["job.yaml:3: execution.backlog.parallelism is given twice, first at job.yaml:2. Keep one of the two."],
        ),
        (
            "state: {}\nname: a\nstate: {backlog: {}}",
            ["job.yaml:3: state is given twice, first at job.yaml:1. Keep one of the two."],
        ),
        ("name: a\nname.b: c", ["job.yaml:2: name is given twice, first at job.yaml:1. Keep one of the two."]),
        ("name.b: c\nname: a", ["job.yaml:2: name is given twice, first at job.yaml:1. Keep one of the two."]),
        ("name: a\nname.b: {c: d}", ["job.yaml:2: name is given twice, first at job.yaml:1. Keep one of the two."]),
        (
            "spark: {master: a}\nspark.master: b",
            ["job.yaml:2: spark.master is given twice, first at job.yaml:1. Keep one of the two."],
        ),
        (
            "spark: {driver: {memory: 1g}, spark.driver.memory: 2g}",
            ["job.yaml:1: spark.driver.memory is given twice, first at job.yaml:1. Keep one of the two."],
        ),
    ],
)
def test_a_key_given_twice_in_any_spelling_is_a_problem_that_names_both_lines(text: str, expected: list[str]) -> None:
    assert problems(text) == expected


def test_a_key_without_a_value_counts_as_not_given() -> None:
    document = read("execution:\nexecution.runtime-mode: batch\npipeline.max-parallelism: 4\npipeline.backlog:\n")
    assert document.problems == []
    assert document.values == {
        "execution": {"runtime-mode": "batch"},
        "pipeline": {"max-parallelism": 4, "backlog": None},
    }


@pytest.mark.parametrize(
    ("step", "path"),
    [
        ("key-by: ", "steps[0].key-by"),
        ("join: {as-of: }", "steps[0].join.as-of"),
        ("join.within: ~", "steps[0].join.within"),
        ("window: {tumbling: null}", "steps[0].window.tumbling"),
        ("outputs: {late: {path: }}", "steps[0].outputs.late.path"),
    ],
)
def test_a_key_without_a_value_in_a_step_is_a_problem(step: str, path: str) -> None:
    """Without such a key, the step would answer another question."""
    text = f"{path} has no value. Give it one ({{}} for a section with its defaults), or remove the key."
    assert problems(f"steps:\n- {step}") == [f"job.yaml:2: {text}"]


@pytest.mark.parametrize("step", ["args: {a: , b: {c: null}}", "late: {options: {spark.a: }}", "key-by: [~]"])
def test_null_may_be_a_value_of_the_users_in_a_step(step: str) -> None:
    assert problems(f"steps:\n- {step}") == []


def test_steps_without_a_value_are_only_missing() -> None:
    assert problems("steps:") == []


def test_an_alias_is_a_whole_value_and_a_merge_key_is_refused() -> None:
    document = read("sources:\n  a: &a {path: x}\n  b: *a\n  c:\n    <<: *a\n    path: y\n")
    assert document.values["sources"] == {"a": {"path": "x"}, "b": {"path": "x"}, "c": {"path": "y"}}
    (problem,) = document.problems
    assert str(problem).startswith("job.yaml:5: YAML's merge key has no meaning in a job file.")
    assert read('sources: {a: {args: {"<<": 1}}}').problems == []


def test_spark_settings_keep_their_whole_keys_and_their_text() -> None:
    document = read(
        "spark:\n"
        "  master: local[*]\n"
        "  driver.memory: 4g\n"
        "  speculation: yes\n"
        "  speculation.interval: 100ms\n"
        "  memory: {fraction: 0.60}\n"
        "  spark: {sql.shuffle.partitions: 0x10}\n"
        "spark.ui.enabled: False\n"
        "spark.date: 2024-01-01\n"
    )
    assert document.problems == []
    assert document.values["spark"] == {
        "spark.master": "local[*]",
        "spark.driver.memory": "4g",
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.memory.fraction": "0.60",
        "spark.sql.shuffle.partitions": "0x10",
        "spark.ui.enabled": "false",
        "spark.date": "2024-01-01",
    }
    assert str(document.mark(("spark", "spark.speculation.interval"))) == "job.yaml:5"


def test_options_of_a_source_keep_their_whole_keys_however_they_are_reached() -> None:
    nested = read("sources: {a: {options: {fs.s3a.endpoint: x, header: true}}}")
    dotted = read("sources.a.options.fs.s3a.endpoint: x\nsources.a.options.header: true")
    assert nested.values == {"sources": {"a": {"options": {"fs.s3a.endpoint": "x", "header": "true"}}}}
    assert dotted.values == nested.values


def test_a_dot_in_a_name_that_the_user_makes_up_stays_for_the_spec_to_refuse() -> None:
    document = read("sources: {a.b: {path: x}}\nsteps:\n- aggregate: {c.d: count(*)}\n- aggregate.e.f: count(*)")
    assert document.values == {
        "sources": {"a.b": {"path": "x"}},
        "steps": [{"aggregate": {"c.d": "count(*)"}}, {"aggregate": {"e.f": "count(*)"}}],
    }


def test_keys_are_text_whatever_yaml_makes_of_them() -> None:
    document = read("steps:\n- aggregate: {no: count(*), 2024: max(a), null: min(a), 2024-01-01: sum(a)}")
    assert list(document.values["steps"][0]["aggregate"]) == ["no", "2024", "null", "2024-01-01"]


def test_dates_and_what_only_looks_like_a_number_are_text() -> None:
    assert read("a: 2024-01-01\nb: 2024-13-45\nc: 0x_\nd: =\ne: <<").values == {
        "a": "2024-01-01",
        "b": "2024-13-45",
        "c": "0x_",
        "d": "=",
        "e": "<<",
    }


@pytest.mark.parametrize(("written", "read_as"), [("010", 8), ("-0_7", -7), ("1:30", 90), ("1:30.5", 90.5)])
def test_a_number_that_yaml_reads_as_another_one_is_refused(written: str, read_as: float) -> None:
    for found in (problems(f"a: {written}"), problems("a: 1", f"a={written}"), problems(f"a: [{written}]")):
        assert len(found) == 1
        assert found[0].endswith(f"or put a text in quotes. found={written}, read_as={read_as}")
    assert read(f"a: '{written}'\nb: 0\nc: 0x10\nd: 1_000\ne: 0.5\nf: 01.5").values == {
        "a": written, "b": 0, "c": 16, "d": 1000, "e": 0.5, "f": 1.5
    }  # fmt: skip


def test_an_alias_stands_for_the_value_it_names() -> None:
    document = read("sources:\n  a: &a {format: csv}\n  b: *a\n")
    assert document.problems == []
    assert document.values == {"sources": {"a": {"format": "csv"}, "b": {"format": "csv"}}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a]: b", ["job.yaml:1: a key must be a single word. Put it in quotes if it holds brackets or braces."]),
        (
            "a:\n  b..c: d",
            ["job.yaml:2: a key, or a part of one between two dots, is empty. Name it or remove it. found=b..c"],
        ),
        (
            "spark: {'': d}",
            ["job.yaml:1: a key, or a part of one between two dots, is empty. Name it or remove it. found="],
        ),
        (
            "a: !python/name:os b",
            ["job.yaml:1: YAML tags have no meaning in a job file. Remove it. tag=!python/name:os"],
        ),
        ("a: !!set {b}", ["job.yaml:1: YAML tags have no meaning in a job file. Remove it. tag=set"]),
        ("a: [!!omap [b]]", ["job.yaml:1: YAML tags have no meaning in a job file. Remove it. tag=omap"]),
        (
            "a: !!python/object/apply:os.system [b]",
            ["job.yaml:1: YAML tags have no meaning in a job file. Remove it. tag=python/object/apply:os.system"],
        ),
        ("!a\nb: c", ["job.yaml:1: YAML tags have no meaning in a job file. Remove it. tag=!a"]),
        ("a: !!binary b", ["job.yaml:1: YAML tags have no meaning in a job file. Remove it. tag=binary"]),
        ("a: &a\n  b: *a", ["job.yaml:1: a.b contains itself. Remove the alias."]),
        ("a: &a\n  - *a", ["job.yaml:1: a[0] contains itself. Remove the alias."]),
    ],
)
def test_what_has_no_meaning_in_a_job_file_is_a_problem_with_its_line(text: str, expected: list[str]) -> None:
    assert problems(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "job.yaml: the job file is empty. A job needs at least name, sources, steps and sink."),
        ("# nothing\n---\n", "job.yaml: the job file is empty. A job needs at least name, sources, steps and sink."),
        ('a: b\n"\\ud800": c', f"job.yaml:2: {HALF}"),
        ('a:\n  - b: "c\\udfffd"', f"job.yaml:2: {HALF}"),
        (
            "\n- a",
            "job.yaml:2: the job file must be a section of keys (name, sources, steps, sink), not a list.",
        ),
        ("a", "job.yaml:1: the job file must be a section of keys (name, sources, steps, sink), not text."),
        (
            "a: b\nc: [d\n",
            f"job.yaml:3: {NOT_YAML}expected ',' or ']', but got '<stream end>', {SEQUENCE} 2",
        ),
        (
            "a:\n\tb: c",
            "job.yaml:2: a tab is where YAML allows only spaces. Replace it with spaces.",
        ),
        (
            'a: "\x85',  # a line end of YAML 1.1
            f"job.yaml:2: {NOT_YAML}found unexpected end of stream, while scanning a quoted scalar {FROM_LINE} 1",
        ),
        ("a: b\nc:\td", "job.yaml:2: a tab is where YAML allows only spaces. Replace it with spaces."),
        (
            "a: *b",
            (f"job.yaml:1: {NOT_YAML}found undefined alias 'b'"),
        ),
        (
            "sql: SELECT 'a: b'",
            f"job.yaml:1: {NOT_YAML}mapping values are not allowed here",
        ),
        (
            "aggregate: {orders: *, revenue: sum(x)}",
            (f"job.yaml:1: {NOT_YAML}expected alphabetic or numeric character, but found ',', while scanning an alias"),
        ),
        (
            "a: b\n---\nc: d",
            "job.yaml:2: a second document begins here, and a job file is one. Make it a file of its own.",
        ),
        (
            "a: 1\nb:2\nc: 3",
            f"job.yaml:3: {NOT_YAML}could not find expected ':', while scanning a simple key {FROM_LINE} 2",
        ),
        (
            "a: b\nc: \x00",
            (f"job.yaml:2: {NOT_YAML}special characters are not allowed, U+0000"),
        ),
    ],
)
def test_text_that_is_no_section_of_keys_is_one_message_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        read(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("override", "values"),
    [
        ("a.b=2", {"a": {"b": 2, "c": 3}}),
        ("a.d=x=y", {"a": {"b": 1, "c": 3, "d": "x=y"}}),
        ("a=5", {"a": 5}),
        ("a.b.e= no ", {"a": {"b": {"e": False}, "c": 3}}),
        ("a.b=", {"a": {"c": 3}}),
        ("a.b='2'", {"a": {"b": "2", "c": 3}}),
        ('a.b="unclosed', {"a": {"b": '"unclosed', "c": 3}}),
        ("a.b='x' y", {"a": {"b": "'x' y", "c": 3}}),
        ("a.b=local[*]", {"a": {"b": "local[*]", "c": 3}}),
        ("a.b=k: v # w", {"a": {"b": "k: v # w", "c": 3}}),
        ("a.b=[x]", {"a": {"b": "[x]", "c": 3}}),
        ("spark.master=local[1]", {"a": {"b": 1, "c": 3}, "spark": {"spark.master": "local[1]"}}),
    ],
)
def test_an_override_replaces_what_the_file_says(override: str, values: dict[str, Any]) -> None:
    document = read("a: {b: 1, c: 3}", override)
    assert document.problems == []
    assert document.values == values
    key = override.partition("=")[0]
    assert str(document.marks[key]) == f"--set {key}"


@pytest.mark.parametrize("override", ["a\ud800=1", "a.b=\udcff"])
def test_an_override_with_half_a_character_is_a_problem(override: str) -> None:
    assert problems("a: {b: 1}", override) == [f"{f'--set {override}'!a}: {HALF}"]


def test_the_last_of_several_overrides_wins() -> None:
    assert read("a: 1", "a=2", "a=3").values == {"a": 3}


def test_an_override_of_one_spelling_replaces_the_other_spelling_too() -> None:
    here, there = "execution.interval-during-backlog", "execution.checkpointing.interval-during-backlog"
    assert read(f"{here}: 0", f"{there}=10s").values == {
        "execution": {"checkpointing": {"interval-during-backlog": "10s"}}
    }
    assert read(f"{there}: 0", f"{here}=10s").values == {
        "execution": {"checkpointing": {}, "interval-during-backlog": "10s"}
    }


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("a", "--set a: this is not key=value. Write, for example, --set parallelism=4."),
        ("=a", "--set =a: this is not key=value. Write, for example, --set parallelism=4."),
        (
            "a..b=c",
            "--set a..b: a key, or a part of one between two dots, is empty. Name it or remove it. found=a..b",
        ),
    ],
)
def test_an_override_that_is_no_key_and_value_is_a_problem(override: str, problem: str) -> None:
    assert problems("a: b", override) == [problem]


_words = st.sampled_from(["a", "b", "c-d"])
_trees = st.recursive(
    st.integers(0, 9) | st.sampled_from(["x", "1s"]),
    lambda inner: st.dictionaries(_words, inner, min_size=1, max_size=3),
    max_leaves=8,
)


def _spelled(draw: st.DrawFn, tree: dict[str, Any]) -> dict[str, Any]:
    """The same tree with some of its sections folded into dotted keys."""
    spelled: dict[str, Any] = {}
    for key, value in tree.items():
        if not isinstance(value, dict):
            spelled[key] = value
        elif draw(st.booleans()):
            spelled |= {f"{key}.{below}": one for below, one in _spelled(draw, value).items()}
        else:
            spelled[key] = _spelled(draw, value)
    return spelled


@st.composite
def trees_in_two_spellings(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    tree = draw(st.dictionaries(_words, _trees, min_size=1, max_size=3))
    return tree, _spelled(draw, tree)


@given(trees_in_two_spellings())
def test_a_document_means_the_same_whichever_of_its_keys_are_dotted(
    trees: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    tree, spelled = trees
    document = read(yaml.safe_dump(spelled, sort_keys=False))
    assert document.problems == []
    assert document.values == tree


def test_the_arguments_of_a_process_step_are_read_as_they_are_at_every_depth() -> None:
    document = read(
        "steps:\n"
        "  - process: a:B\n"
        "    args: {a.b: 1, c: {d.e: [true, 1.5, {f.g: ~}], h: {}}, i: '2'}\n"
        "    outputs.late.path: x\n"
    )
    assert document.problems == []
    assert document.values["steps"] == [
        {
            "process": "a:B",
            "args": {"a.b": 1, "c": {"d.e": [True, 1.5, {"f.g": None}], "h": {}}, "i": "2"},
            "outputs": {"late": {"path": "x"}},
        }
    ]


#: every place of a map with dots in its keys: {its path: the text of a job file around the map}
ARGS = {
    "sources.args.args": "sources: {args: {args: MAP}}",
    "sources.s.live.args": "sources: {s: {live: {args: MAP}}}",
    "sources.s.dead-letter.args": "sources.s.dead-letter.args: MAP",
    "sink.args": "sink: {args: MAP}",
    "outputs.o.args": "outputs: {o: {args: MAP}}",
    "outputs.options.args": "outputs.options.args: MAP",
    "steps[0].args": "steps: [{args: MAP}]",
    "steps[0].co-process.args": "steps: [{co-process: {args: MAP}}]",
    "steps[0].late.args": "steps: [{late.args: MAP}]",
    "steps[0].outputs.args.args": "steps: [{outputs: {args: {args: MAP}}}]",
}
OPTIONS = {
    place.removesuffix("args") + "options": text.replace("args: MAP", "options: MAP") for place, text in ARGS.items()
}
OPTIONS["dimensions.d.options"] = "dimensions: {d: {options: MAP}}"


def at(document: Document, place: str) -> Any:
    found: Any = document.values
    for key in place.replace("[0]", ".0").split("."):
        found = found[int(key) if key == "0" else key]
    return found


@pytest.mark.parametrize(("place", "text"), ARGS.items())
def test_arguments_of_a_class_are_the_users_wherever_they_are_and_whatever_their_names(place: str, text: str) -> None:
    given = {"options": {"retry.on": {"max": 3}, "a": True}, "offsets": {"b.c": [{"options": {"n": 1.5}}]}, "spark": {}}
    assert at(read(text.replace("MAP", json.dumps(given))), place) == given
    (problem,) = problems(text.replace("MAP", "{countries: [SE, NO]}"))
    assert problem.endswith(
        ": YAML reads this as true or false. Write true or false, or put a text in quotes. found=NO"
    )


@pytest.mark.parametrize(("place", "text"), OPTIONS.items())
def test_options_keep_their_dots_and_their_texts_wherever_they_are(place: str, text: str) -> None:
    document = read(text.replace("MAP", "{kafka.security.protocol: SSL, kafka: {linger.ms: 010}, header: yes}"))
    assert document.problems == []
    assert at(document, place) == {"kafka.security.protocol": "SSL", "kafka.linger.ms": "010", "header": "true"}


def test_an_argument_of_a_process_step_given_twice_is_a_problem() -> None:
    assert problems("steps:\n  - args:\n      a.b: 1\n      a.b: 2\n") == [
        "job.yaml:4: steps[0].args.a.b is given twice, first at job.yaml:3. Keep one of the two."
    ]
