"""Filters: the text that the command line takes, or a dict of fields.

    'class = "cat" and (year >= 2020 or not exists(flag)) and color in ("red", "blue")'
    {"class": "cat", "year": {">=": 2020}, "color": ["red", "blue"]}

Keys of a dict are paths into the payload and hold together; a list means any of its values.
"""

from __future__ import annotations

import json
import re
from typing import Any, List, Mapping, NamedTuple, Union

from . import _wire, errors

Filter = Union[str, Mapping[str, Any], None]

_DEPTH_MAX = 32
_TOKEN = re.compile(
    r"""\s*(?:(?P<path>(?:[A-Za-z_$\u0080-\U0010ffff][\w$\-]*|"(?:\\.|[^"\\])*")(?:\.(?:[\w$\-]+|"(?:\\.|[^"\\])*"))+)
          |(?P<word>[A-Za-z_$\u0080-\U0010ffff][\w$.\-]*)
          |(?P<number>[-+]?[0-9.][\w.+\-]*)
          |(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
          |(?P<field>`(?:\\.|[^`\\])*`)
          |(?P<symbol>==|!=|<=|>=|[=<>(),]))""",
    re.VERBOSE,
)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$")
_RANGES = {"<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}


class _Token(NamedTuple):
    kind: str
    text: str
    column: int


def make(filter: Filter) -> Any:
    """The wire's Filter; None for no filter. InvalidArgument names the column or the key."""
    if filter is None:
        return None
    if isinstance(filter, str):
        return _Parser(filter).run()
    if isinstance(filter, Mapping):
        return _of_mapping(filter)
    if hasattr(filter, "SerializeToString"):
        return filter
    raise _wrong("filter", type(filter).__name__, "a text, or a dict of fields")


def key_path(*names: str) -> str:
    """The path of keys from the outside in, whatever characters they have."""
    return ".".join(
        json.dumps(name, ensure_ascii=False) if not name or "." in name or name[0] in '"$' else name for name in names
    )


def _wrong(what: str, value: str, allowed: str) -> errors.InvalidArgument:
    return errors.InvalidArgument(
        f"{what}: {value} is not allowed; allowed: {allowed}", field=what, value=value, allowed=allowed
    )


def put_value(value: Any, into: Any, field: str) -> None:
    """Writes a JSON value into a FilterValue of the wire. InvalidArgument names `field`."""
    if isinstance(value, bool):
        into.boolean = value
    elif isinstance(value, int) and -(2**63) <= value < 2**63:
        into.integer = value
    elif isinstance(value, float) and value == value and abs(value) != float("inf"):
        into.number = value
    elif isinstance(value, str):
        into.text = value
    else:
        raise _wrong(f"filter.{field}", repr(value), "a text, a 64-bit integer, a finite number, True or False")


def _condition(field: str, condition: Any) -> Any:
    made = _wire.message("Filter")()
    if isinstance(condition, Mapping):
        unknown = sorted(set(condition) - set(_RANGES), key=str)
        if unknown or not condition:
            raise _wrong(f"filter.{field}", ", ".join(map(str, unknown)) or "{}", "the keys <, <=, >, >=")
        made.range.field = field
        for sign, bound in condition.items():
            put_value(bound, getattr(made.range, _RANGES[sign]), field)
    elif isinstance(condition, (list, tuple, set, frozenset)):
        getattr(made, "in").field = field
        for value in condition:
            put_value(value, getattr(made, "in").values.add(), field)
    else:
        made.equals.field = field
        put_value(condition, made.equals.value, field)
    return made


def _of_mapping(fields: Mapping[str, Any]) -> Any:
    if not fields:
        raise _wrong("filter", "{}", "at least one field, or None")
    conditions = [_condition(field, condition) for field, condition in fields.items()]
    if len(conditions) == 1:
        return conditions[0]
    made = _wire.message("Filter")()
    getattr(made, "and").of.extend(conditions)
    return made


class _Parser:
    """Recursive descent over the grammar of docs/reference/filters.md."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: List[_Token] = []
        self._at = 0

    def run(self) -> Any:
        self._lex()
        if self._here().kind == "end":
            raise self._error(0, "an empty filter; expected a condition")
        made = self._or(0)
        if self._here().kind != "end":
            raise self._unexpected("'and', 'or' or the end")
        return made

    def _lex(self) -> None:
        at = 0
        while self._text[at:].strip():
            found = _TOKEN.match(self._text, at)
            if found is None:
                at += len(self._text[at:]) - len(self._text[at:].lstrip())
                raise self._error(at, f"unexpected character {self._text[at]!r}")
            kind = found.lastgroup or ""
            self._tokens.append(_Token(kind, found.group(kind), found.start(kind)))
            at = found.end()
        self._tokens.append(_Token("end", "", len(self._text)))

    def _error(self, at: int, what: str) -> errors.InvalidArgument:
        shown = re.sub(r"[\n\t\r]", " ", self._text)
        return errors.InvalidArgument(
            f"filter, column {at + 1}: {what}\n  {shown}\n  {' ' * at}^", field="filter", value=self._text
        )

    def _unexpected(self, expected: str) -> errors.InvalidArgument:
        token = self._here()
        found = "the end" if token.kind == "end" else f"'{token.text}'"
        return self._error(token.column, f"expected {expected}, found {found}")

    def _here(self) -> _Token:
        return self._tokens[self._at]

    def _take(self, kind: str, text: str) -> bool:
        token = self._here()
        same = token.kind == kind and (token.text.lower() if kind == "word" else token.text) == text
        self._at += same
        return same

    def _list(self, word: str, part: Any, depth: int) -> Any:
        first = part(depth)
        rest = []
        while self._take("word", word):
            rest.append(part(depth))
        if not rest:
            return first
        made = _wire.message("Filter")()
        getattr(made, word).of.extend([first, *rest])
        return made

    def _or(self, depth: int) -> Any:
        return self._list("or", self._and, depth)

    def _and(self, depth: int) -> Any:
        return self._list("and", self._unary, depth)

    def _not(self, inner: Any) -> Any:
        made = _wire.message("Filter")()
        getattr(made, "not").CopyFrom(inner)
        return made

    def _unary(self, depth: int) -> Any:
        if depth > _DEPTH_MAX:
            raise self._error(self._here().column, f"the filter is nested too deeply; allowed: {_DEPTH_MAX}")
        if self._take("word", "not"):
            return self._not(self._unary(depth + 1))
        if self._take("symbol", "("):
            inner = self._or(depth + 1)
            if not self._take("symbol", ")"):
                raise self._unexpected("'and', 'or' or ')'")
            return inner
        return self._one_condition(depth)

    def _one_condition(self, depth: int) -> Any:
        made = _wire.message("Filter")()
        following = self._tokens[min(self._at + 1, len(self._tokens) - 1)]
        for name in ("has_id", "nested", "words", "any_word", "phrase", "prefix", "geo_radius", "geo_box", "geo_polygon"):
            if following.text == "(" and self._take("word", name):
                self._take("symbol", "(")
                self._function(name, made, depth)
                if not self._take("symbol", ")"):
                    raise self._unexpected("')'")
                return made
        for name in ("exists", "is_null", "is_empty", "values_count"):
            if following.text == "(" and self._take("word", name):
                self._take("symbol", "(")
                function = getattr(made, name)
                function.field = self._field()
                if not self._take("symbol", ")"):
                    raise self._unexpected("')'")
                return made if name != "values_count" else self._counted(made, function)
        field = self._field()
        negated = self._take("word", "not")
        if self._take("word", "in"):
            self._in(field, getattr(made, "in"))
            return self._not(made) if negated else made
        if negated:
            raise self._unexpected("'in'")
        for sign, side in _RANGES.items():
            if self._take("symbol", sign):
                made.range.field = field
                self._put(getattr(made.range, side), field)
                return made
        different = self._take("symbol", "!=")
        if not different and not self._take("symbol", "=") and not self._take("symbol", "=="):
            raise self._unexpected("=, !=, <, <=, >, >= or in")
        made.equals.field = field
        self._put(made.equals.value, field)
        return self._not(made) if different else made

    def _function(self, name: str, made: Any, depth: int) -> None:
        """The arguments of a condition on ids, a nested object, a text or a place."""
        if name == "has_id":
            self._id(made.has_id.ids.add())
            while self._take("symbol", ","):
                self._id(made.has_id.ids.add())
            return
        into = made.text if name in ("words", "any_word", "phrase", "prefix") else getattr(made, name)
        into.field = self._field()
        self._comma()
        if name == "nested":
            into.filter.CopyFrom(self._or(depth + 1))
        elif name == "geo_radius":
            into.center.lon, into.center.lat, into.radius = self._numbers(3)
        elif name == "geo_polygon":
            more = True
            while more:
                lon, lat = self._numbers(2)
                into.exterior.points.add(lon=lon, lat=lat)
                more = self._take("symbol", ",")
        elif name == "geo_box":
            left, top, right, bottom = self._numbers(4)
            into.top_left.lon, into.top_left.lat, into.bottom_right.lon, into.bottom_right.lat = left, top, right, bottom
        else:
            token = self._here()
            if token.kind != "text":
                raise self._unexpected('a "text"')
            self._at += 1
            setattr(into, name, self._string(token))

    def _comma(self) -> None:
        if not self._take("symbol", ","):
            raise self._unexpected("','")

    def _numbers(self, count: int) -> List[float]:
        numbers = []
        for i in range(count):
            if i > 0:
                self._comma()
            token = self._here()
            if token.kind != "number" or not _NUMBER.match(token.text):
                raise self._unexpected("a number")
            self._at += 1
            numbers.append(float(token.text))
        return numbers

    def _id(self, into: Any) -> None:
        token = self._here()
        if token.kind == "text":
            into.name = self._string(token)
        elif token.kind == "number" and token.text.isdigit() and int(token.text) < 2**64:
            into.number = int(token.text)
        else:
            raise self._unexpected('an id: a "text" or a whole number from 0 on')
        self._at += 1

    def _counted(self, made: Any, count: Any) -> Any:
        """The bound of a number of values."""
        sign = next((one for one in (*_RANGES, "=", "==", "!=") if self._take("symbol", one)), None)
        token = self._here()
        if sign is None:
            raise self._unexpected("=, !=, <, <=, > or >=")
        if token.kind != "number" or not token.text.isdigit():
            raise self._unexpected("a whole number")
        self._at += 1
        for side in [_RANGES[sign]] if sign in _RANGES else ["greater_equal", "less_equal"]:
            setattr(count, side, int(token.text))
        return self._not(made) if sign == "!=" else made

    def _in(self, field: str, made: Any) -> None:
        made.field = field
        if not self._take("symbol", "("):
            raise self._unexpected("'('")
        while True:
            self._put(made.values.add(), field)
            if self._take("symbol", ")"):
                return
            if not self._take("symbol", ","):
                raise self._unexpected("',' or ')'")

    def _field(self) -> str:
        token = self._here()
        if token.kind == "field":
            self._at += 1
            return self._string(token)
        if token.kind == "path" or (token.kind == "text" and token.text.startswith('"')):
            self._at += 1
            return token.text  # The wire reads keys in double quotes, too.
        if token.kind != "word" or token.text.lower() in ("and", "or", "not", "in", "true", "false"):
            raise self._unexpected("a field")
        if token.text.endswith(".") or ".." in token.text:
            raise self._error(token.column, f"'{token.text}' is no field: a part of its path is empty")
        self._at += 1
        return token.text

    def _put(self, into: Any, field: str) -> None:
        token = self._here()
        if token.kind == "text":
            value: Any = self._string(token)
        elif token.kind == "number":
            if not _NUMBER.match(token.text):
                raise self._error(token.column, f"'{token.text}' is no number")
            value = json.loads(token.text)
        elif token.kind == "word" and token.text.lower() in ("true", "false"):
            value = token.text.lower() == "true"
        else:
            raise self._unexpected('a value (texts go in "quotes")')
        self._at += 1
        put_value(value, into, field)

    def _string(self, token: _Token) -> str:
        quote, inner = token.text[0], token.text[1:-1]
        if quote != '"':
            inner = inner.replace("\\" + quote, quote)
            inner = re.sub(r'(\\.)|"', lambda found: found.group(1) or '\\"', inner, flags=re.DOTALL)
        try:
            return json.loads(f'"{inner}"', strict=False)
        except ValueError:
            raise self._error(token.column, "a text with an unknown escape") from None
