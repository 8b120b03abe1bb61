"""The parser of options, held against the rules that vLLM 0.33.0 was seen to follow."""

from __future__ import annotations

import pytest
from engines.commands import FILE, read, words
from shardlint.engines import flags
from shardlint.engines.flags import FlagTable, ParsedWords
from shardlint.known import Text
from shardlint.plan import Flag
from shardlint.source import Mapped, Origin, Span

TABLE = FlagTable("vllm")


def parse(line: str) -> ParsedWords:
    return TABLE.parse(words(line))


def one(line: str) -> Flag:
    """The only option of a line."""
    (flag,) = parse(line).flags
    return flag


def value(flag: Flag) -> str | None:
    return flag.value.value if flag.value is not None else None


# ---------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("line", "flag"),
    [
        ("--tensor-parallel-size 4", "--tensor-parallel-size"),
        ("--tensor_parallel_size 4", "--tensor-parallel-size"),
        ("--tensor-parallel_size 4", "--tensor-parallel-size"),
        ("--tensor-parallel-size=4", "--tensor-parallel-size"),
        ("--tensor_parallel_size=4", "--tensor-parallel-size"),
        ("-tp 4", "--tensor-parallel-size"),
        ("-tp=4", "--tensor-parallel-size"),
        ("-t 4", "--tensor-parallel-size"),
        ("--tensor-parallel 4", "--tensor-parallel-size"),
        ("--tensor_par 4", "--tensor-parallel-size"),
        ("--device-memory-utilization 4", "--gpu-memory-utilization"),
        ("-n 4", "--nnodes"),
        ("-n4", "--nnodes"),
        ("-r4", "--node-rank"),
        ("-q 4", "--quantization"),
        ("-q4", "--quantization"),
        ("-O3", "--optimization-level"),
        ("-O=3", "--optimization-level"),
        ("-O 3", "--optimization-level"),
    ],
)
def test_spelling_names_its_option(line: str, flag: str) -> None:
    found = one(line)
    assert (flag, None) == (found.flag, found.problem)
    assert value(found) in ("3", "4")


@pytest.mark.parametrize("name", ["-tp4", "-pp2", "--tp", "--pp", "--tp=4", "-tp_4", "-TP"])
def test_spelling_of_no_option_is_refused(name: str) -> None:
    found = one(f"{name} 4")
    assert (None, "unrecognized arguments") == (found.flag, found.problem)


@pytest.mark.parametrize(
    ("name", "guesses"),
    [
        ("--tp", ("-tp",)),
        ("--pp", ("-pp",)),
        ("-tp4", ("-tp=4",)),
        ("--tp4", ("-tp=4",)),
        ("--tensor-paralell-size", ("--tensor-parallel-size",)),
        ("--max-model-length", ("--max-model-len",)),
        ("--disable-prefix-cachng", ("--disable-prefix-caching",)),
        ("--no-enable-prefix-cachng", ("--no-enable-prefix-caching",)),
        ("--no-such-thing-at-all", ()),
    ],
)
def test_refused_spelling_has_its_guess(name: str, guesses: tuple[str, ...]) -> None:
    assert guesses == one(name).candidates


@pytest.mark.parametrize("name", ["--swap-space", "--logits-processor-pattern", "--task"])
def test_option_of_another_release_is_no_misspelling(name: str) -> None:
    assert (None, ()) == (one(name).flag, one(name).candidates)


@pytest.mark.parametrize(
    ("line", "candidates"),
    [
        ("--device cuda", ("--device-ids", "--device-memory-utilization")),
        ("-a 1", ("-ac", "-asc")),
        ("-pc 1", None),
    ],
)
def test_prefix_of_several_options_is_ambiguous(
    line: str, candidates: tuple[str, ...] | None
) -> None:
    found = one(line)
    if candidates is None:
        assert ("--prefill-context-parallel-size", None) == (found.flag, found.problem)
    else:
        assert (None, "ambiguous option") == (found.flag, found.problem)
        assert candidates == found.candidates


def test_many_options_share_a_short_prefix() -> None:
    found = one("--data-parallel 4")
    assert "ambiguous option" == found.problem
    assert "--data-parallel-size" in found.candidates
    assert "--data-parallel-rank" in found.candidates


# --------------------------------------------------------------------------------- on and off


@pytest.mark.parametrize(
    ("spelling", "flag", "on"),
    [
        ("--enable-prefix-caching", "--enable-prefix-caching", True),
        ("--no-enable-prefix-caching", "--enable-prefix-caching", False),
        ("--disable-prefix-caching", "--enable-prefix-caching", False),
        ("--disable_prefix_caching", "--enable-prefix-caching", False),
        ("-ep", "--enable-expert-parallel", True),
        ("--disable-expert-parallel", "--enable-expert-parallel", False),
        ("--disable-custom-all-reduce", "--disable-custom-all-reduce", True),
        ("--enable-custom-all-reduce", "--disable-custom-all-reduce", False),
        ("--enforce-eager", "--enforce-eager", True),
        ("--no-enforce-eager", "--enforce-eager", False),
        ("--disable-log-requests", "--enable-log-requests", False),
    ],
)
def test_switch_is_on_or_off(spelling: str, flag: str, on: bool) -> None:
    found = one(spelling)
    assert flag == found.flag
    assert (on,) == flags.switch(found).values


def test_switch_takes_no_value_behind_an_equals_sign() -> None:
    found = one("--enable-prefix-caching=true")
    assert "ignored explicit argument" == found.problem
    assert not flags.switch(found).is_known


def test_word_after_a_switch_is_positional() -> None:
    parsed = parse("model --enable-prefix-caching False")
    assert ["model", "False"] == [word.value for word in parsed.positionals]
    assert (True,) == flags.switch(parsed.last("--enable-prefix-caching")).values


def test_short_form_of_a_negation_is_another_option() -> None:
    found = one("-no-ep")
    assert ("--nnodes", "o-ep") == (found.flag, value(found))


# --------------------------------------------------------------------------------- which counts


def test_last_of_a_repeated_option_wins() -> None:
    assert (4,) == read("vllm serve m -tp 8 --tensor-parallel-size 2 -tp=4").layout.tp.values
    assert (False,) == read("vllm serve m -ep --no-enable-expert-parallel").layout.ep.values


def test_dotted_option_has_its_key_and_does_not_count_as_the_option() -> None:
    parsed = parse("--speculative_config.num-speculative-tokens 3 --model m")
    dotted = parsed.flags[0]
    assert ("--speculative-config", "num-speculative-tokens") == (dotted.flag, dotted.dotted)
    assert "3" == value(dotted)
    assert parsed.last("--speculative-config") is None


@pytest.mark.parametrize("line", ["-sc.method ngram", "-sc.method=ngram", "-cc.mode ngram"])
def test_short_option_can_be_dotted(line: str) -> None:
    found = one(line)
    assert found.dotted in ("method", "mode")
    assert (None, "ngram") == (found.problem, value(found))


def test_dotted_option_takes_whatever_follows() -> None:
    parsed = parse("--compilation-config.mode --enforce-eager -tp 2")
    assert "--enforce-eager" == value(parsed.flags[0])
    assert ["--compilation-config", "--tensor-parallel-size"] == [f.flag for f in parsed.flags]


# ------------------------------------------------------------------------------------- values


def test_negative_number_is_a_value() -> None:
    assert "-1" == value(one("--max-model-len -1"))
    assert "-0.5" == value(one("--gpu-memory-utilization -0.5"))
    assert "-.5" == value(one("--gpu-memory-utilization -.5"))


def test_option_is_no_value_of_the_one_before() -> None:
    first, second = parse("-tp --enforce-eager").flags
    assert ("--tensor-parallel-size", None) == (first.flag, first.value)
    assert "expected one argument" == first.problem
    assert "--enforce-eager" == second.flag


def test_option_at_the_end_lacks_its_value() -> None:
    assert "expected one argument" == one("-tp").problem
    assert not read("vllm serve m -tp").layout.tp.is_known


def test_unknown_option_swallows_its_value() -> None:
    parsed = parse("--swap-space 16 Qwen/Qwen3-8B --no-such-switch -tp 2")
    assert ["16", None, "2"] == [value(flag) for flag in parsed.flags]
    assert ["Qwen/Qwen3-8B"] == [word.value for word in parsed.positionals]


def test_word_with_a_blank_is_no_option() -> None:
    parsed = parse("--tensor-parallel-size\\s4 --no-such\\sthing")
    assert () == parsed.flags
    assert 2 == len(parsed.positionals)


def test_value_behind_an_equals_sign_can_have_a_blank() -> None:
    assert '{"a": 1}' == value(one('--hf-overrides={"a":\\s1}'))


def test_option_that_takes_many_ends_at_the_next_option() -> None:
    parsed = parse("--served-model-name a b c -tp 2 model")
    names = parsed.flags[0]
    assert ["a", "b", "c"] == [text.value for text in (names.value, *names.more) if text]
    assert (0, 25) == (names.span.start, names.span.end)
    assert ["model"] == [word.value for word in parsed.positionals]


def test_value_behind_an_equals_sign_is_the_only_one() -> None:
    parsed = parse("--served-model-name=a b")
    assert ("a", ()) == (value(parsed.flags[0]), parsed.flags[0].more)
    assert ["b"] == [word.value for word in parsed.positionals]


def test_words_after_a_double_dash_are_positional() -> None:
    parsed = parse("-tp 4 -- Qwen/Qwen3-8B -pp 2")
    assert ["--tensor-parallel-size"] == [flag.flag for flag in parsed.flags]
    assert ["Qwen/Qwen3-8B", "-pp", "2"] == [word.value for word in parsed.positionals]
    assert "expected one argument" == parse("-tp -- m").flags[0].problem


def test_span_covers_option_and_value() -> None:
    assert Span(0, 24) == one("--tensor-parallel-size 4").span
    assert Span(0, 15) == one("--enforce-eager").span
    assert Span(0, 5) == one("-tp=4").span
    assert Span(0, 5) == one("-tp 4").span


def test_place_of_a_value_is_the_token() -> None:
    assert Origin(FILE, Span(17, 19)) == read("vllm serve m -tp=16").layout.tp.origin
    assert Origin(FILE, Span(17, 18)) == read("vllm serve m -tp 4").layout.tp.origin


# ------------------------------------------------------------------------------------ numbers


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("32k", 32_000),
        ("32K", 32_768),
        ("1.5k", 1_500),
        ("25.6k", 25_600),
        ("2m", 2_000_000),
        ("1M", 1_048_576),
        ("1g", 10**9),
        ("1G", 2**30),
        ("1t", 10**12),
        ("1T", 2**40),
        ("131072", 131_072),
        (" 8 ", 8),
    ],
)
def test_human_number_is_read(text: str, number: int) -> None:
    assert number == flags.human(text)


@pytest.mark.parametrize("text", ["1.5K", "1.5", "32kb", "k", "", "1e3", "0x10", "32 k", "auto"])
def test_text_that_is_no_human_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="whole number"):
        flags.human(text)


@pytest.mark.parametrize("text", ["4", " 4", "+4", "04"])
def test_whole_number_is_read(text: str) -> None:
    assert 4 == flags.whole(text)


@pytest.mark.parametrize("text", ["4.0", "four", "", "4k", "1" * 19])
def test_text_that_is_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="whole number"):
        flags.whole(text)


@pytest.mark.parametrize("text", ["0", "-1"])
def test_group_has_at_least_one_rank(text: str) -> None:
    with pytest.raises(ValueError, match="no size"):
        flags.size(text)
    assert 1 == flags.size("1")


def test_count_can_be_none_but_not_less() -> None:
    assert 0 == flags.count("0")
    with pytest.raises(ValueError, match="less than nothing"):
        flags.count("-1")


def test_fraction_is_read() -> None:
    assert 0.9 == flags.fraction("0.9")
    with pytest.raises(ValueError, match="not a number"):
        flags.fraction("ninety")


# ----------------------------------------------------------------------- what is not all there


@pytest.mark.parametrize(
    ("line", "positionals"), [("m -tp 4 ?*", 1), ("?* -tp 4", 0), ("m -tp 4 ?", 1)]
)
def test_place_of_many_words_leaves_the_end_open(line: str, positionals: int) -> None:
    parsed = parse(line)
    assert "X is not set" == parsed.open_ended
    assert positionals == len(parsed.positionals)


@pytest.mark.parametrize("line", ["? -tp 4", "m -tp ?", "m -tp ?*", "m --served-model-name ? ?"])
def test_unknown_word_in_the_place_of_one_word_is_that_word(line: str) -> None:
    assert parse(line).open_ended is None


def test_unknown_word_beside_the_model_option_may_be_an_option() -> None:
    assert "X is not set" == parse("--model m ?").open_ended


def test_option_before_an_open_end_may_be_overridden_and_one_after_it_not() -> None:
    before, after = read("vllm serve m -tp 4 ?*"), read("vllm serve m ?* -tp 4")
    assert frozenset({"nothing overrides it (X is not set)"}) == before.layout.tp.assumes
    assert frozenset() == after.layout.tp.assumes
    assert (4,) == before.layout.tp.values == after.layout.tp.values
    assert "X is not set" == before.layout.pp.reason == after.layout.pp.reason


def test_assumption_of_a_word_is_handed_on() -> None:
    origin = Origin(FILE, Span(0, 0))
    text = Text(Mapped.all_at("-ep", origin.span), origin, assumes=frozenset({"A is unset"}))
    parsed = TABLE.parse([text])
    assert frozenset({"A is unset"}) == parsed.switched("--enable-expert-parallel").assumes


# ------------------------------------------------------------------------------- how to write


@pytest.mark.parametrize(
    ("like", "written"),
    [("-pp", "-tp"), ("--port", "--tensor-parallel-size"), ("", "--tensor-parallel-size")],
)
def test_option_is_spelled_like_its_neighbour(like: str, written: str) -> None:
    assert written == TABLE.spelling("tp", like)


def test_option_without_a_short_form_is_spelled_out() -> None:
    assert "--max-model-len" == TABLE.spelling("max_model_len", "-tp")
