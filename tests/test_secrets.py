"""Values of the environment: named in settings, given to libraries, and named again in what those say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.secrets import has_secrets, hidden, resolve, resolve_all
from mixedmode.spark.errors import explained


def test_a_setting_names_a_variable_and_whoever_needs_it_gets_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "hunter2-of-shop")
    assert resolve("user:${env:SHOP_PASSWORD}@host") == "user:hunter2-of-shop@host"
    assert resolve_all({"a": "${env:SHOP_PASSWORD}", "b": "plain ${HOME} $x"}) == {
        "a": "hunter2-of-shop",
        "b": "plain ${HOME} $x",
    }


def test_a_variable_that_is_not_set_is_told_by_its_name() -> None:
    with pytest.raises(InvalidJobError) as caught:
        resolve("${env:NOT_SET_ANYWHERE}", where="job.yaml:7: sink.url")
    assert str(caught.value) == (
        "job.yaml:7: sink.url: a setting needs a variable of the environment that is not set. Set it before you start "
        "the job. variable=NOT_SET_ANYWHERE"
    )


def test_what_a_library_says_is_told_without_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", "s3cr3t-value")
    monkeypatch.setenv("DB_PASSWORD_LONG", "s3cr3t-value-and-more")
    resolve("${env:DB_PASSWORD}${env:DB_PASSWORD_LONG}")
    said = "cannot log in with s3cr3t-value-and-more, nor with s3cr3t-value"
    assert has_secrets(said)
    assert hidden(said) == "cannot log in with ${env:DB_PASSWORD_LONG}, nor with ${env:DB_PASSWORD}"
    for error in (RetryableError(said), OSError(said)):
        text = str(explained(error, log_file="spark.log"))
        assert not has_secrets(text)
        assert "${env:DB_PASSWORD}" in text


@given(st.text(alphabet="ab$ {}", max_size=40))
def test_a_text_without_a_reference_stays_as_it_is(text: str) -> None:
    assert resolve(text) == text
