"""Shell text as commands: words, places, variables, branches, scripts in scripts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from shardlint.known import Text
from shardlint.readers.bash import Command, read_argv, read_script, split_words
from shardlint.readers.yaml_tree import Node, documents
from shardlint.source import Mapped, Origin, Source, Span

FILE = "serve.sh"


def read(
    text: str,
    variables: Mapping[str, Text] | None = None,
    arguments: Sequence[Text] | None = None,
) -> tuple[Command, ...]:
    return read_script(whole(text), FILE, variables or {}, arguments)


def whole(text: str) -> Mapped:
    return Mapped.slice_of(text, Span(0, len(text)))


def elsewhere(value: str, file: str = "pod.yaml", at: int = 100) -> Text:
    """A word of another file."""
    span = Span(at, at + len(value))
    places = range(span.start, span.end), range(span.start + 1, span.end + 1)
    return Text(Mapped(value, *places), Origin(file, span))


def words(text: str) -> list[str | None]:
    """The words of the last command."""
    return [word.value for word in read(text)[-1].argv]


def word(text: str, index: int = 1) -> Text:
    """One word of the last command: by default, the first behind its name."""
    return read(text)[-1].argv[index]


def at(text: str, origin: Origin | None) -> str | None:
    """The characters of the text at a place."""
    return None if origin is None else text[origin.span.start : origin.span.end]


# words and their places


def test_a_command_gives_its_words_in_order() -> None:
    assert ["vllm", "serve", "org/model", "--port", "80"] == words("vllm serve org/model --port 80")


def test_no_text_has_no_commands() -> None:
    assert () == read("")


def test_a_line_continuation_parts_words() -> None:
    assert ["vllm", "serve", "m", "--tp", "8"] == words("vllm serve m \\\n  --tp 8\n")


def test_a_line_continuation_with_crlf_parts_words() -> None:
    assert ["vllm", "serve", "m", "--tp", "8"] == words("vllm serve m \\\r\n  --tp 8\r\n")


def test_a_crlf_line_end_is_no_part_of_the_word() -> None:
    text = "A=1\r\nvllm $A\r\n"
    assert ["vllm", "1"] == words(text)


def test_a_continuation_inside_a_word_joins_it() -> None:
    assert ["vllm", "serve"] == words("vllm ser\\\nve")


def test_a_blank_behind_the_backslash_ends_the_command() -> None:
    assert [["vllm", "m", " "], ["--tp", "8"]] == [
        [w.value for w in command.argv] for command in read("vllm m \\ \n --tp 8\n")
    ]


def test_an_escaped_blank_belongs_to_the_next_word() -> None:
    assert ["vllm", " --tp", "8"] == words("vllm \\ --tp 8")


def test_a_backslash_at_the_end_of_the_text_is_a_word() -> None:
    assert ["vllm", "m", "\\"] == words("vllm m \\")


def test_a_comment_ends_the_command() -> None:
    assert ["vllm", "a#b"] == words("vllm a#b # --tp 8")


def test_a_comment_after_a_continuation_ends_the_command() -> None:
    text = "vllm m \\\n # why\n --tp 8\n"
    assert [["vllm", "m"], ["--tp", "8"]] == [[w.value for w in c.argv] for c in read(text)]


def test_operators_part_commands() -> None:
    text = "a 1; b 2 && c 3 || d 4 | e 5 & f 6"
    assert ["a", "b", "c", "d", "e", "f"] == [c.argv[0].value for c in read(text)]


def test_redirections_are_no_words() -> None:
    assert ["vllm", "m", "--tp", "8"] == words("2>&1 vllm m > log --tp 8 2>/dev/null &> x < y")


def test_a_heredoc_body_is_no_command() -> None:
    text = "cat <<EOF > f\nvllm serve wrong\nEOF\nvllm serve right\n"
    assert [["cat"], ["vllm", "serve", "right"]] == [[w.value for w in c.argv] for c in read(text)]


def test_a_command_beside_a_heredoc_is_found() -> None:
    text = "cat <<EOF > f && vllm serve m\nport: 1\nEOF\n"
    assert ["vllm", "serve", "m"] == words(text)


def test_a_herestring_is_no_word() -> None:
    assert ["cat", "-"] == words('cat <<< "vllm serve" -')


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("'a b'", "a b"),
        ('"a b"', "a b"),
        ("$'a b'", "a b"),
        ('$"a b"', "a b"),
        ("'it'\\''s'", "it's"),
        ('"\\"\\$\\\\\\n"', '"$\\\\n'),
        ("$'a\\tb\\x41\\u00e9\\101\\''", "a\tbA\u00e9A'"),
        ("a\\ b", "a b"),
        ('""', ""),
        ("a''", "a"),
        ("x\"y\"'z'", "xyz"),
        ('{"a":1}', "{a:1}"),
        ("'$HOME'", "$HOME"),
        ('"cost: 5$"', "cost: 5$"),
        ("~/models", "~/models"),
    ],
)
def test_quotes_are_taken_off(written: str, value: str) -> None:
    assert ["vllm", value] == words(f"vllm {written}")


@pytest.mark.parametrize("written", ["name", "'name'", '"name"', "$'name'"])
def test_the_place_of_a_literal_is_its_characters_without_quotes(written: str) -> None:
    text = f"vllm serve {written}"
    name = word(text, 2)
    assert "name" == at(text, name.place)
    assert written == at(text, name.origin)
    assert name.place == name.editable


def test_the_value_behind_a_quoted_equals_has_its_own_place() -> None:
    text = 'vllm --served-name="a b"'
    value = word(text).part(len("--served-name="))
    assert ("a b", "a b") == (value.value, at(text, value.editable))


def test_a_word_torn_by_quotes_is_not_edited() -> None:
    torn = word("vllm org/\"name\"'x'")
    assert ("org/namex", None) == (torn.value, torn.editable)


def test_an_escape_is_not_edited() -> None:
    escaped = word("vllm a\\ b")
    assert ("a b", None) == (escaped.value, escaped.editable)


def test_places_count_characters_not_bytes() -> None:
    text = "# Größe: 日本 😀\nMODEL=é/ü\nvllm '日本' $MODEL é"
    name, model, last = read(text)[-1].argv[1:]
    assert ("日本", "$MODEL", "é") == (
        at(text, name.place),
        at(text, model.place),
        at(text, last.place),
    )
    assert "é/ü" == at(text, model.definition)


def test_the_origin_of_a_command_reaches_from_its_first_to_its_last_token() -> None:
    text = "  A=1 vllm serve m > log 2>&1 & wait"
    assert "A=1 vllm serve m > log 2>&1" == at(text, read(text)[0].origin)


# variables


def test_a_variable_is_expanded_and_points_to_its_definition() -> None:
    text = 'MODEL="org/name"\nvllm serve "$MODEL"'
    model = word(text, 2)
    assert ("org/name", '"$MODEL"') == (model.value, at(text, model.place))
    assert "org/name" == at(text, model.definition)
    assert ['"org/name"'] == [at(text, origin) for origin in model.related]


def test_characters_of_a_variable_have_the_place_of_its_use() -> None:
    text = "N=7\nvllm --model=org-${N}b"
    model = word(text)
    assert model.mapped is not None
    seven = len("--model=org-")
    places = model.mapped.span(seven, seven + 1), model.mapped.span(seven + 1)
    assert ["${N}", "b"] == [text[span.start : span.end] for span in places]
    assert (None, False) == (model.definition, model.mapped.literal)


def test_a_variable_of_a_variable_points_to_the_literal() -> None:
    text = "A=4\nB=$A\nvllm --tp $B"
    tp = word(text, 2)
    assert ("4", "4") == (tp.value, at(text, tp.editable))
    assert ["$A", "4"] == [at(text, origin) for origin in tp.related]


def test_an_unquoted_variable_is_split_and_each_word_is_editable() -> None:
    text = "ARGS=' --tp 8 '\nvllm$ARGS m"
    assert ["vllm", "--tp", "8", "m"] == words(text)
    assert "8" == at(text, word(text, 2).definition)


def test_a_quoted_variable_is_not_split() -> None:
    assert ["vllm", "--tp 8"] == words("ARGS='--tp 8'\nvllm \"$ARGS\"")


def test_an_empty_variable_is_no_word_unless_quoted() -> None:
    assert ["vllm", "", "m"] == words('A=\nvllm $A "$A" m')


def test_a_variable_that_is_not_set_is_unknown_and_may_be_many_words() -> None:
    bare, quoted = read('vllm $EXTRA "$EXTRA"')[0].argv[1:]
    assert ("EXTRA is not set in this file", True) == (bare.reason, bare.many)
    assert ("EXTRA is not set in this file", False) == (quoted.reason, quoted.many)


def test_an_option_keeps_its_name_before_an_unknown_value() -> None:
    text = "vllm --tp=$TP"
    name, value = read(text)[0].argv[1:]
    assert ("--tp", "--tp") == (name.value, at(text, name.place))
    assert (None, "$TP", False) == (value.value, at(text, value.origin), value.many)


def test_the_later_assignment_counts() -> None:
    assert ["vllm", "2"] == words("A=1\nA=2\nvllm $A")


def test_a_command_does_not_see_a_later_assignment() -> None:
    assert [None] == [w.value for w in read("vllm $A\nA=1\n")[0].argv[1:]]


def test_an_appended_value_is_the_sum() -> None:
    text = "A='--tp 8'\nA+=' --pp 2'\nvllm $A"
    assert ["vllm", "--tp", "8", "--pp", "2"] == words(text)
    assert "2" == at(text, word(text, 4).definition)


def test_an_assignment_before_a_command_is_not_for_its_own_words() -> None:
    command = read("A=1\nA=2 vllm $A")[-1]
    assert ("1", "2") == (command.argv[1].value, command.env["A"].value)
    assert "A" in command.exported


def test_assignments_on_a_line_of_their_own_stay() -> None:
    assert ["vllm", "1", "2"] == words("A=1 B=2\nvllm $A $B")


@pytest.mark.parametrize("builtin", ["export", "declare -x", "export -p", "typeset -x"])
def test_an_exported_variable_reaches_the_process(builtin: str) -> None:
    command = read(f"{builtin} A=1\nB=2\nvllm $A")[-1]
    assert ("1", "1", "2") == (
        command.argv[1].value, command.env["A"].value, command.env["B"].value
    )  # fmt: skip
    assert "B" not in command.exported
    assert ("A" in command.exported) == ("x" in builtin)


def test_an_exported_name_keeps_its_value() -> None:
    command = read("A=1\nexport A\nvllm $A")[-1]
    assert ("1", frozenset({"A"})) == (command.argv[1].value, command.exported)


def test_an_unset_variable_is_gone() -> None:
    assert [None] == [w.value for w in read("A=1\nunset A\nvllm $A")[-1].argv[1:]]


def test_the_output_of_a_command_is_not_known() -> None:
    for written in ("$(hostname -f)", "`hostname -f`"):
        unknown = word(f'vllm "{written}"')
        assert (None, f"{written} is known only when it runs") == (unknown.value, unknown.reason)


def test_a_variable_with_an_unknown_value_says_why() -> None:
    unknown = word('A=$(hostname)\nvllm "$A"')
    assert "$(hostname) is known only when it runs" == unknown.reason


def test_what_was_sourced_is_named_where_a_variable_is_missing() -> None:
    unknown = word("A=1\nsource .env\nvllm $A $TP", 2)
    assert "TP is not set in this file, and .env is not read" == unknown.reason
    assert ["vllm", "1"] == words("A=1\n. .env\nvllm $A")


@pytest.mark.parametrize("setter", ["read -r TP rest", "getopts ab TP", "printf -v TP %s 1"])
def test_a_builtin_that_sets_a_variable_makes_it_unknown(setter: str) -> None:
    unknown = word(f"TP=1\n{setter}\nvllm $TP")
    assert f"TP is set by {setter.split()[0]}" == unknown.reason


# defaults


def test_a_default_rests_on_the_environment() -> None:
    text = 'vllm --tp "${TP:-4}"'
    tp = word(text, 2)
    assert ("4", frozenset({"TP is not set in the environment"})) == (tp.value, tp.assumes)
    assert "4" == at(text, tp.editable)


def test_a_variable_with_a_default_carries_the_assumption() -> None:
    text = 'TP="${TP:-4}"\nvllm --tp "$TP"'
    tp = word(text, 2)
    assert ("4", frozenset({"TP is not set in the environment"})) == (tp.value, tp.assumes)
    assert "4" == at(text, tp.definition)


def test_a_default_of_a_default_rests_on_both() -> None:
    tp = word("vllm ${A:-${B-4}}")
    both = frozenset(f"{name} is not set in the environment" for name in "AB")
    assert ("4", both) == (tp.value, tp.assumes)


def test_a_default_is_split_like_any_word() -> None:
    assert ["vllm", "--tp", "4", "a b"] == words('vllm ${X:---tp 4 "a b"}')


def test_an_empty_default_is_no_word() -> None:
    assert ["vllm", "m"] == words("vllm ${EXTRA:-} m")


def test_a_default_with_colon_replaces_an_empty_value() -> None:
    assert ["vllm", "4", ""] == words('A=\nvllm "${A:-4}" "${A-4}"')


def test_a_default_does_not_replace_an_unknown_value() -> None:
    unknown = word("A=$(nproc)\nvllm ${A:-4}")
    assert (None, "$(nproc) is known only when it runs") == (unknown.value, unknown.reason)


def test_an_assigned_default_stays() -> None:
    text = ": ${TP:=4}\nvllm --tp $TP"
    tp = word(text, 2)
    assert ("4", frozenset({"TP is not set in the environment"})) == (tp.value, tp.assumes)


def test_an_alternative_stands_only_beside_a_value() -> None:
    assert ["vllm", "--x", "1"] == words("A=1\nB=\nvllm ${A:+--x $A} ${B:+--y $B} ${C:+--z}")


def test_the_environment_replaces_a_default() -> None:
    text = "vllm --tp ${TP:-4} $GPUS"
    env = {"TP": elsewhere("8"), "GPUS": Text.unknown(Origin("pod.yaml", Span(1, 2)), "a secret")}
    tp, gpus = read(text, env)[0].argv[2:]
    assert ("8", frozenset()) == (tp.value, tp.assumes)
    assert env["TP"].place == tp.definition
    assert "a secret" == gpus.reason


@pytest.mark.parametrize(
    "written", ["${A%x}", "${A##*/}", "${A/a/b}", "${!A}", "${A^^}", "${A:1:2}"]
)
def test_other_parameter_expansions_are_not_computed(written: str) -> None:
    assert f"{written} is not computed" == word(f"A=1\nvllm {written}").reason


# arguments


def test_an_argument_with_a_default_rests_on_the_call() -> None:
    text = 'TP="${2:-4}"\nvllm --tp $TP'
    tp = word(text, 2)
    assert ("4", frozenset({"the script's argument 2 is not given"})) == (tp.value, tp.assumes)
    assert "4" == at(text, tp.definition)


def test_an_argument_after_shift_has_its_number_in_the_call() -> None:
    tp = word("shift\nvllm ${1:-4}")
    assert {"the script's argument 2 is not given"} == tp.assumes


def test_arguments_that_nobody_knows_may_be_many_words() -> None:
    for written in ('"$@"', "$@", "$*"):
        unknown = word(f"vllm {written}")
        assert (None, True) == (unknown.value, unknown.many)
        assert unknown.reason is not None
        assert written.strip('"') in unknown.reason


def test_known_arguments_are_spliced_as_they_are() -> None:
    given_words = [elsewhere("--tp"), elsewhere("8", at=200)]
    assert given_words == list(read('exec vllm "$@"', {}, given_words)[0].argv[2:])


def test_known_arguments_are_numbered() -> None:
    text = "vllm $2 ${3:-x} $4"
    argv = read(text, {}, [elsewhere("--tp"), elsewhere("8", at=200)])[0].argv
    assert ["vllm", "8", "x"] == [w.value for w in argv]
    assert (Origin("pod.yaml", Span(200, 201)), frozenset()) == (
        argv[1].definition,
        argv[2].assumes,
    )


def test_set_replaces_the_arguments() -> None:
    assert ["vllm", "--tp", "8"] == words('set -- --tp 8\nvllm "$@"')


def test_arguments_shifted_in_a_loop_are_unknown() -> None:
    text = 'while [ $# -gt 0 ]; do shift; done\nvllm "${1:-m}"'
    assert "the arguments are set in a loop" == word(text).reason


# arrays


def test_array_elements_are_words_at_their_own_places() -> None:
    text = 'cmd=(vllm serve "org/name")\ncmd+=(--tp 8)\nexec "${cmd[@]}"'
    assert ["exec", "vllm", "serve", "org/name", "--tp", "8"] == words(text)
    assert "org/name" == at(text, word(text, 3).editable)


def test_array_elements_are_split_when_unquoted() -> None:
    assert ["vllm", "a", "b", "c"] == words("x=('a b' c)\nvllm ${x[@]}")


def test_a_starred_array_in_quotes_is_one_word() -> None:
    assert ["vllm", "a b"] == words('x=(a b)\nvllm "${x[*]}"')


def test_one_element_of_an_array_is_known_by_its_number() -> None:
    assert ["vllm", "a", "c", "a"] == words("x=(a b c)\nvllm ${x[0]} ${x[-1]} $x")


def test_a_part_of_an_array_or_of_the_arguments_is_known_by_its_number() -> None:
    assert ["vllm", "b c", "d"] == words('x=(a "b c" d)\nvllm "${x[@]:1}"')
    assert ["vllm", "b"] == words('set -- a b\nvllm "${@:2}"')
    assert "the words before it are not known" == word('x=("$@" a)\nvllm "${x[@]:1}"').reason


def test_a_guarded_array_is_the_array() -> None:
    assert ["vllm", "a", "b c"] == words('x=(a "b c")\nvllm ${x[@]+"${x[@]}"}')


def test_an_unknown_array_may_be_many_words() -> None:
    unknown = word('vllm "${EXTRA[@]}"')
    assert ("EXTRA is not set in this file", True) == (unknown.reason, unknown.many)


def test_the_length_of_an_array_is_not_computed() -> None:
    unknown = word("x=(a)\nvllm ${#x[@]}")
    assert ("${#x[@]} is not computed", False) == (unknown.reason, unknown.many)


def test_an_array_keeps_an_unknown_rest() -> None:
    first, rest = read('x=(a "$@")\nvllm "${x[@]}"')[-1].argv[1:]
    assert ("a", True) == (first.value, rest.many)


# computed values


@pytest.mark.parametrize(
    ("expression", "value"),
    [("NODES * GPUS", "32"), ("$NODES*${GPUS}", "32"), ("7 / 2 - 1", "2"), ("(NODES+1) % 3", "2"),
     ("0-7/2", "-3"), ("${TP:-2} * 2", "4")],
)  # fmt: skip
def test_arithmetic_of_known_numbers_is_computed(expression: str, value: str) -> None:
    assert ["vllm", value] == words(f"NODES=4\nGPUS=8\nvllm $(({expression}))")


@pytest.mark.parametrize(
    "expression", ["NODES * 2", "1 << 2", "1 / 0", "A++", "9 ** 9", "'x'", "010"]
)
def test_other_arithmetic_is_one_unknown_word(expression: str) -> None:
    unknown = word(f"vllm $(({expression}))")
    assert (None, False) == (unknown.value, unknown.many)


def test_arithmetic_points_to_its_variables() -> None:
    text = "NODES=4\nvllm $((NODES * 2))"
    assert ["4"] == [at(text, origin) for origin in word(text).related]


@pytest.mark.parametrize(
    ("written", "value"),
    [('$(basename "$M")', "name"), ("$(basename -- $M)", "name"), ("$(basename $M me)", "na"),
     ("$(dirname $M)", "/models/org"), ("`basename /a/b/`", "b"), ("$(dirname x)", ".")],
)  # fmt: skip
def test_parts_of_a_known_path_are_computed(written: str, value: str) -> None:
    assert ["vllm", value] == words(f"M=/models/org/name\nvllm {written}")


def test_braces_that_expand_are_not_one_word() -> None:
    unknown = word('vllm --x={"a":1,"b":2}')
    assert (None, True) == (unknown.value, unknown.many)


# branches


@pytest.mark.parametrize(
    "text",
    ["if a; then vllm m; fi", "if a; then b; elif c; then vllm m; fi",
     "if a; then b; else vllm m; fi", "case $X in a) vllm m ;; esac",
     "while a; do vllm m; done", "for i in 1 2; do vllm m; done",
     "for ((i=0; i<2; i++)); do vllm m; done", "f() { vllm m; }", "function f { vllm m; }",
     "a && vllm m", "a || vllm m"],
)  # fmt: skip
def test_a_command_that_runs_only_sometimes_is_conditional(text: str) -> None:
    found = [c for c in read(text) if c.argv[0].value == "vllm"]
    assert [(True, "m")] == [(c.conditional, c.argv[1].value) for c in found]


@pytest.mark.parametrize(
    "text", ["vllm m && b", "vllm m | tee x", "(vllm m)", "{ vllm m; }", "! vllm m"]
)
def test_a_command_that_always_runs_is_not_conditional(text: str) -> None:
    found = [c for c in read(text) if c.argv[0].value == "vllm"]
    assert [(False, "m")] == [(c.conditional, c.argv[1].value) for c in found]


@pytest.mark.parametrize(
    ("block", "where"),
    [("if a; then TP=4; fi", "in a branch"), ("case $1 in a) TP=4 ;; esac", "in a branch"),
     ("[ $1 ] && TP=4", "in a branch"), ("while a; do TP=4; done", "in a loop"),
     ("for TP in 1 2; do b; done", "in a loop"), ("f() { TP=4; }\nf", "in a function"),
     ("if a; then TP+=4; fi", "in a branch"), ("if a; then unset TP; fi", "in a branch"),
     ("((TP++))", "by arithmetic")],
)  # fmt: skip
def test_what_a_block_sets_is_unknown_afterwards(block: str, where: str) -> None:
    assert f"TP is set {where}" == word(f"TP=2\n{block}\nvllm $TP").reason


def test_inside_its_branch_an_assignment_is_in_force() -> None:
    text = "TP=2\nif a; then TP=4; vllm $TP; else vllm $TP; fi"
    found = [c.argv[1].value for c in read(text) if c.argv[0].value == "vllm"]
    assert ["4", "2"] == found


def test_along_a_chain_an_assignment_is_in_force() -> None:
    assert ["vllm", "4"] == words("cd /app && export TP=4 && vllm $TP")
    assert [None] == [w.value for w in read("a && TP=4 || vllm $TP")[-1].argv[1:]]


def test_a_variable_that_a_loop_changes_is_unknown_from_its_first_turn_on() -> None:
    text = "PORT=80\nfor i in 1 2; do vllm $PORT; PORT=$((PORT+1)); done"
    assert [None] == [w.value for w in read(text)[0].argv[1:]]


def test_a_subshell_keeps_what_it_sets() -> None:
    assert ["vllm", "2"] == words("TP=2\n(TP=4; cd x)\nvllm $TP")


def test_an_assignment_after_the_branch_is_known_again() -> None:
    assert ["vllm", "8"] == words("if a; then TP=4; fi\nTP=8\nvllm $TP")


def test_a_function_is_read_with_the_arguments_of_each_call() -> None:
    text = "start() { vllm serve $1 --port $2; }\nstart a 80\nstart b 81\n"
    found = [[w.value for w in c.argv[2:]] for c in read(text) if c.argv[0].value == "vllm"]
    assert [["a", "--port", "80"], ["b", "--port", "81"]] == found


def test_a_function_sees_what_is_set_before_its_call() -> None:
    assert ["vllm", "m"] == words("main() { vllm $MODEL; }\nMODEL=m\nmain")


def test_a_local_variable_ends_with_its_function() -> None:
    assert ["vllm", "2"] == words("TP=2\nf() { local TP=4; }\nf\nvllm $TP")


def test_a_function_that_calls_itself_ends() -> None:
    found = [c.argv[0].value for c in read("f() { vllm m; f; }\nf")]
    assert ("f", "vllm", "f") == (*found[:2], found[-1])
    assert len(found) <= 20


# scripts in scripts


@pytest.mark.parametrize(
    "prefix",
    ["sh -c", "bash -lc", "/bin/bash -ec", "bash -euo pipefail -c", "exec bash -c", "nohup sh -c",
     "env B=2 sh -c", "sudo -u me sh -c", "timeout 5 sh -c", "timeout -k 1 5 sh -c", "eval"],
)  # fmt: skip
def test_a_script_in_a_command_is_read_instead_of_it(prefix: str) -> None:
    text = f"{prefix} 'ulimit -n 9; vllm serve m'"
    commands = read(text)
    assert [["ulimit", "-n", "9"], ["vllm", "serve", "m"]] == [
        [w.value for w in c.argv] for c in commands
    ]
    assert "vllm serve m" == at(text, commands[1].origin)
    assert "m" == at(text, commands[1].argv[2].editable)


def test_a_script_gets_the_words_behind_it_as_arguments() -> None:
    text = "bash -c 'exec vllm $0 \"$@\" $1' -- --tp 8"
    assert ["exec", "vllm", "--", "--tp", "8", "--tp"] == words(text)
    assert "8" == at(text, word(text, 4).editable)


def test_a_script_sees_only_exported_variables() -> None:
    text = "A=1\nexport B=2\nC=3 env D=4 sh -c 'vllm $B $C $D $A'"
    assert ["vllm", "2", "3", "4", None] == words(text)


def test_variables_in_double_quotes_are_expanded_before_the_script_is_read() -> None:
    assert ["vllm", "--tp", "8"] == words("ARGS='--tp 8'\nsh -c \"vllm $ARGS\"")
    assert ["vllm", None] == words('A=1\nsh -c "vllm \\$A"')


def test_an_unknown_part_of_a_script_is_one_unknown_word_of_it() -> None:
    model, rest = read("eval \"exec vllm '$MODEL' $EXTRA\"")[0].argv[2:]
    assert ("MODEL is not set in this file", False) == (model.reason, model.many)
    assert ("EXTRA is not set in this file", True) == (rest.reason, rest.many)


def test_eval_joins_its_words_and_keeps_its_scope() -> None:
    assert ["exec", "vllm", "a", "b"] == words("A='a b'\neval exec vllm '$A'")
    assert ["vllm", "4"] == words("eval TP=4\nvllm $TP")


def test_eval_splices_arguments() -> None:
    text = 'eval "exec vllm serve /mnt/models $@"'
    found = read(text, {}, [elsewhere("--tp"), elsewhere("8", at=200)])[0].argv
    assert ["exec", "vllm", "serve", "/mnt/models", "--tp", "8"] == [w.value for w in found]


def test_a_script_that_is_not_known_leaves_the_command() -> None:
    assert ["bash", "-c", None] == words('bash -c "$SCRIPT"')
    assert ["bash", "serve.sh", "-c"] == words("bash serve.sh -c")


def test_scripts_in_scripts_end_at_some_depth() -> None:
    text = 'X=\'eval "$X"\'\neval "$X"'
    assert [["eval", 'eval "$X"']] == [[w.value for w in c.argv] for c in read(text)]


def test_read_argv_reads_the_script_of_a_list_of_words() -> None:
    argv = [elsewhere(value, at=100 * i) for i, value in enumerate(
        ("bash", "-c", 'exec vllm serve "$@"', "--", "--tp", "8"))]  # fmt: skip
    (command,) = read_argv(argv, "pod.yaml")
    assert ["exec", "vllm", "serve", "--tp", "8"] == [w.value for w in command.argv]
    assert (argv[4], argv[5]) == command.argv[3:]


def test_read_argv_keeps_a_plain_command() -> None:
    argv = [elsewhere("vllm"), elsewhere("serve", at=200)]
    (command,) = read_argv(argv, "pod.yaml", {"A": elsewhere("1")})
    assert (tuple(argv), Origin("pod.yaml", Span(100, 205))) == (command.argv, command.origin)
    assert ("1", frozenset({"A"})) == (command.env["A"].value, command.exported)


def test_a_script_from_another_file_keeps_its_places() -> None:
    argv = [elsewhere("bash"), elsewhere("-c", at=200), elsewhere("vllm serve m", at=300)]
    (command,) = read('exec "$@"', {}, argv)
    assert (Origin("pod.yaml", Span(300, 312)), "m") == (command.origin, command.argv[2].value)


def test_a_script_in_a_variable_has_the_place_of_its_use() -> None:
    text = 'exec bash -c "$SCRIPT"'
    (command,) = read(text, {"SCRIPT": elsewhere("vllm serve m")})
    assert ("$SCRIPT", "m") == (at(text, command.origin), command.argv[2].value)


# text that is no shell


@pytest.mark.parametrize(
    "text",
    [
        'vllm serve "m',
        "vllm serve (a b)",
        "vllm serve $(x",
        "vllm serve > ",
        "f() {",
        "vllm 'a' \"b",
    ],
)
def test_a_command_whose_words_are_not_intact_is_dropped(text: str) -> None:
    assert () == read(text)


def test_intact_commands_of_an_unfinished_block_are_found() -> None:
    (command,) = [c for c in read("if a; then\n vllm serve m") if c.argv[0].value == "vllm"]
    assert (["vllm", "serve", "m"], True) == ([w.value for w in command.argv], command.conditional)


def test_a_broken_line_does_not_hide_the_next_command() -> None:
    assert ["vllm", "serve", "m"] == words("echo a; ; echo b\nvllm serve m\n")


@pytest.mark.parametrize(
    "text",
    ["(" * 9000, "$(" * 9000, "{ " * 9000, "${A:-" * 9000, "if a; then " * 9000, '"$(' * 9000,
     "a | " * 9000, "cat <<A " * 9000, "A=" + "$A" * 9 + "\n" + "A=$A$A\n" * 99 + "a $A",
     "A=aaaa\n" + "A=$A$A\n" * 99 + "a $A", "f() { " + "f; " * 99 + "}\nf", "a " * 20_000,
     "for i in a; do " * 200, "vllm ${" + "9" * 5000 + "}", "vllm $((" + "9*" * 90 + "9))"],
)  # fmt: skip
def test_huge_and_deep_text_is_read_in_bounds(text: str) -> None:
    assert len(read(text)) <= 2000


PIECES = [
    *("vllm", " ", "\n", "A=", "$A", "${A:-", "}", '"', "'", "$(", ")", "$((", "))", "`", "\\"),
    *("#", "<<E\n", "\nE\n", "if ", "then ", "fi ", "do ", "done ", "f() { ", ";", "&&", "|"),
    *(
        "\r\n",
        '"$@"',
        "A+=(",
        "eval ",
        "sh -c ",
        "é",
        "😀",
        "\0",
        "shift ",
        "local A",
        "{1,2}",
        "> ",
        "$'",
    ),
]
SHELL = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=60).map("".join))


@given(SHELL, st.booleans())
@example('sh -c "$@"', True)  # the script is the argument, which stands where the call does
def test_any_text_is_read_and_literal_words_stand_where_they_say(text: str, called: bool) -> None:
    given = elsewhere("x")
    commands = read_script(whole(text), FILE, {}, [given] if called else None)
    for command in commands:
        here = command.origin.file == FILE
        assert _inside(command.origin, text) if here else command.origin == given.origin
    for found in (w for c in commands for w in c.argv if w.origin.file == FILE):
        assert _inside(found.origin, text)
        _check_literal(found, text)


@given(SHELL, st.booleans())
def test_any_text_is_split_and_literal_words_stand_where_they_say(text: str, expand: bool) -> None:
    for found in split_words(whole(text), FILE, {}, expand=expand):
        assert _inside(found.origin, text)
        _check_literal(found, text)


def _inside(origin: Origin, text: str) -> bool:
    return 0 <= origin.span.start <= origin.span.end <= len(text)


def _check_literal(found: Text, text: str) -> None:
    if found.mapped is not None and found.mapped.literal:
        places = zip(found.mapped.starts, found.mapped.ends, strict=True)
        there = "".join(text[start:end] for start, end in places)
        assert found.value == there.replace("\r\n", "\n")


# one command string


def test_a_string_is_split_without_expansion() -> None:
    text = "vllm  serve 'a b' \"c d\" e\\ f $HOME ${X:-y} `z` a|b > f #c\n--tp\t8"
    expected = [
        "vllm",
        "serve",
        "a b",
        "c d",
        "e f",
        "$HOME",
        "${X:-y}",
        "`z`",
        "a|b",
        ">",
        "f",
        "#c",
    ]
    assert [*expected, "--tp", "8"] == [w.value for w in split_words(whole(text), FILE)]


def test_split_words_have_the_places_of_their_characters() -> None:
    text = "vllm serve 'é b'"
    last = split_words(whole(text), FILE)[2]
    assert ("é b", "'é b'") == (at(text, last.editable), at(text, last.origin))


def test_split_words_expand_when_asked() -> None:
    found = split_words(whole("vllm ${TP:-4} $M"), FILE, {"M": elsewhere("m")}, expand=True)
    assert ["vllm", "4", "m"] == [w.value for w in found]


def test_split_words_end_at_the_characters_named() -> None:
    found = split_words(whole("vllm 'a|b' c | tee x"), FILE, until=";&|<>")
    assert ["vllm", "a|b", "c"] == [w.value for w in found]


def test_an_open_quote_leaves_the_rest_unknown() -> None:
    *_, last = split_words(whole('vllm "m --tp 8'), FILE)
    assert (None, True, "a quote does not close") == (last.value, last.many, last.reason)


# real files


def scripts(shared: Path) -> list[Path]:
    return sorted((*shared.glob("corpus/shell/*.sh"), *shared.glob("corpus/slurm/*.sh")))


def test_every_script_of_the_corpus_starts_an_engine(shared: Path) -> None:
    for path in scripts(shared):
        source = Source.from_bytes(path.name, path.read_bytes())
        text = " ".join(w.value or "?" for c in read(source.text) for w in c.argv)
        launchers = (
            "vllm serve",
            "vllm.entrypoints",
            "sglang.launch",
            "trtllm-serve",
            "vllm-openai",
        )
        assert any(launcher in text for launcher in launchers), path.name


def engine(shared: Path, name: str, launcher: str) -> tuple[str, Command]:
    """The text of one real script, and its command with this word."""
    (path,) = [path for path in scripts(shared) if name in path.name]
    text = Source.from_bytes(path.name, path.read_bytes()).text
    (found,) = [c for c in read(text) if launcher in [w.value for w in c.argv]]
    return text, found


def test_a_real_script_with_arguments_and_defaults(shared: Path) -> None:
    text, found = engine(shared, "serve_vllm.sh", "vllm.entrypoints.openai.api_server")
    model, _, tp = found.argv[4:7]
    assert ("meta-llama/Llama-3.1-8B-Instruct", "4") == (model.value, tp.value)
    assert {"the script's argument 2 is not given"} == tp.assumes
    assert "4" == at(text, tp.definition)


def test_a_real_slurm_script_with_unknown_arithmetic(shared: Path) -> None:
    text, found = engine(shared, "deepseek_r1_h100", "serve")
    assert "/n/holylfs06/LABS/kempner_shared/Everyone/testbed/models/DeepSeek-R1" == (
        found.argv[2].value
    )
    tp = found.argv[4]
    assert ("SLURM_NNODES is not set in this file", False) == (tp.reason, tp.many)
    nodes = {"SLURM_NNODES": elsewhere("4"), "SLURM_GPUS_ON_NODE": elsewhere("4")}
    (again,) = [c for c in read(text, nodes) if c.argv[0].value == "vllm"]
    assert "16" == again.argv[4].value


def test_a_real_script_with_a_model_from_a_branch(shared: Path) -> None:
    _, found = engine(shared, "start-vllm-gemma4", "serve")
    assert "MODELL is set in a branch" == found.argv[3].reason
    assert [w.value for w in found.argv[4:-1]] == [
        "--max-num-seqs",
        "32",
        "--max-model-len",
        "262144",
        "--gpu-memory-utilization",
        "0.85",
        "--host",
        "0.0.0.0",
        "--port",
        "8000",
    ]
    assert found.argv[-1].many


def test_a_real_script_with_three_engines(shared: Path) -> None:
    (path,) = [path for path in scripts(shared) if "Telco-RAG" in path.name]
    found = [c for c in read(path.read_text("utf-8")) if "serve" in [w.value for w in c.argv]]
    assert ["0.5", "0.2", "0.2"] == [c.argv[-1].value for c in found]
    assert [False, False, False] == [c.conditional for c in found]


def test_a_real_docker_command_with_nested_expansions(shared: Path) -> None:
    text, found = engine(shared, "dgx-spark-research", "--quantization")
    values = [w.value for w in found.argv]
    assert ["docker", "run", "-d", "--name", "llama-70b"] == values[:5]
    assert "/models/llama33-70b-nvfp4" == values[values.index("--model") + 1]
    length = found.argv[values.index("--max-model-len") + 1]
    assert ("32768", "32768") == (length.value, at(text, length.definition))


def test_a_real_environment_before_the_command(shared: Path) -> None:
    _, found = engine(shared, "serve_cpu_offload_with_redis", "serve")
    assert "conf/lmcache_redis_config.yaml" == found.env["LMCACHE_CONFIG_FILE"].value
    assert found.env.keys() == found.exported


def scalar(shared: Path, file: str, *path: str | int) -> tuple[str, Node]:
    """The text of a YAML file of the corpus, and one of its nodes."""
    source = Source.from_bytes(file, (shared / "corpus" / file).read_bytes())
    node = documents(source)[0].get(*path)
    assert node is not None
    return source.text, node


def test_a_real_block_scalar_keeps_the_places_of_its_file(shared: Path) -> None:
    text, node = scalar(
        shared, "k8s-deployment/aihpi__litellm-k8s__gemma-4-31b__deployment.yaml",
        "spec", "template", "spec", "containers", 0, "args", 0,
    )  # fmt: skip
    script = node.text().mapped
    assert script is not None
    found = read_script(script, "deployment.yaml")[-1]
    values = [w.value for w in found.argv]
    tp = found.argv[values.index("--tensor-parallel-size") + 1]
    assert ("4", "4") == (tp.value, at(text, tp.editable))
    assert '{"image": 4}' == values[values.index("--limit-mm-per-prompt") + 1]
    unknown = found.argv[-3]
    assert ("LORA_MODULE_FLAG is set in a branch", True) == (unknown.reason, unknown.many)
    assert "$LORA_MODULE_FLAG" == at(text, unknown.origin)


def test_a_real_entrypoint_takes_the_command_as_its_arguments(shared: Path) -> None:
    path = "docker-compose/meandmyboiclaude__club-3090__fp8.yml"
    text, node = scalar(shared, path, "services", "vllm-qwen36-35b-a3b-dual-nvfp4")
    script, command = node.get("entrypoint", 2), node.get("command")
    assert script is not None
    assert command is not None
    plain = whole(script.value.replace("$$", "$"))
    found = read_script(plain, path, {}, [item.text() for item in command.items])
    serve, direct = [c.argv for c in found if "serve" in [w.value for w in c.argv]]
    assert ["exec", "vllm", "serve", "--model"] == [w.value for w in serve[:4]]
    assert "--disable-custom-all-reduce" == direct[3].value
    assert serve[3:] == direct[4:]
    name = next(found for found in serve if found.value == "qwen3.6-35b-a3b")
    assert "qwen3.6-35b-a3b" == at(text, name.editable)


def test_the_parser_is_loaded_only_when_a_script_is_read() -> None:
    code = (
        "import sys, shardlint.readers.bash as bash\n"
        "from shardlint.source import Mapped, Span\n"
        "bash.split_words(Mapped.slice_of('a b', Span(0, 3)), 'f')\n"
        "sys.exit('tree_sitter' in sys.modules)"
    )
    paths = [path for path in sys.path if path]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {paths!r}\n{code}"], check=False
    )
    assert 0 == done.returncode
