"""How rows become the training, validation and test part of a data set, or folds.

    >>> division = Division(6, {"group": "patient"}, values=["a", "a", "b", "b", "c", "c"])
    >>> [len(rows) for rows in division.parts(valid=0.5, test=0.3, split_seed=0)]
    [2, 2, 2]
    >>> [rows.tolist() for rows in Division(6, "in_order").fold(1, 2, seed=0)]
    [[0, 1, 2, 3], [4, 5]]
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from andiron import errors
from andiron.data.dataset import Classes
from andiron.data.splitting.stratified import stratified_folds, stratified_split, wrong_number
from andiron.plain import readable
from andiron.ranges import Validation

TEST_SEED = 0  # fixed: the held-out samples are the same for every split seed
MOST_SHOWN = 10  # values in a message
NO_VALUE = "", "None", "nan"
Option = str | Mapping[str, Any] | None  # see `ranges.SplitOption`
Fold = tuple[Tensor, Tensor]  # the rows that train, and those that validate


class Parts(NamedTuple):
    """The indices of each part, ascending."""

    train: Tensor
    valid: Tensor
    test: Tensor


def columns_of(option: Option) -> list[Any]:
    """The column by whose values the option `split` divides the rows, if it names one."""
    named = option if isinstance(option, Mapping) else {}
    return [named[name] for name in ("group", "by") if name in named]


@dataclass(frozen=True)
class Division:
    """A number of rows, and the option `split` of their data set, by which they are divided.

    `random` draws rows. `stratified` draws a fraction of each of the `classes`; this is the default
    if there are classes. `in_order` takes the last rows. `{gap: n}` is `in_order` without
    the `n` rows before each held-out part. `{group: COLUMN}` draws values of a column: the rows of
    a value are in one part. `{by: COLUMN, valid: [...], test: [...]}` lists the values of each
    held-out part. `values` are of the column. In order, `gap` is the least number of rows to
    leave out, those that share values with another, as overlapping windows do; if `is_by_class`,
    the rows of each class are divided by themselves.
    Raises: DataError for `stratified` without classes, and a row without a value of the column.
    """

    size: int
    option: Option = None
    classes: Classes | None = None  # of each row, from 0 on
    values: Sequence[Any] = ()  # of each row
    gap: int = 0
    is_by_class: bool = False
    row_name: Callable[[int], str] = "row {}".format  # in messages

    def __post_init__(self) -> None:
        if self.option == "stratified" and self.classes is None:
            raise errors.DataError(
                "data.split=stratified: the targets are not one class for each sample, or a torch "
                "data set has no attribute `targets`; set data.split=random, or in_order"
            )
        if (column := self.column) is None:
            return
        if len(self.values) != self.size:
            raise errors.DataError(
                f"data.split: {column!r} has {len(self.values)} values for {self.size} samples; "
                "give it one for each"
            )
        for row, text in enumerate(self._texts):
            if text in NO_VALUE:
                raise errors.DataError(
                    f"{self.row_name(row)}: has no value of {column!r}, by which data.split "
                    "divides; give it one, or remove the sample"
                )

    @property
    def kind(self) -> str:
        """The way to divide: random, stratified, in_order, group or by."""
        if isinstance(self.option, Mapping):
            return next((name for name in ("group", "by") if name in self.option), "in_order")
        return self.option or ("random" if self.classes is None else "stratified")

    @property
    def column(self) -> str | None:
        """The name of the column that divides, in messages."""
        for column in columns_of(self.option):
            return column if isinstance(column, str) else "the given groups"
        return None

    @cached_property
    def _texts(self) -> list[str]:
        return [*map(str, self.values)]

    @cached_property
    def _groups(self) -> Int[Tensor, " size"]:
        """The number of each row's value, counted from 0."""
        places = {text: place for place, text in enumerate(sorted({*self._texts}))}
        return torch.tensor([places[text] for text in self._texts], dtype=torch.long)

    @property
    def _classes(self) -> Classes:
        if self.classes is None or self.kind != "stratified":
            return torch.zeros(self.size, dtype=torch.long)
        return self.classes

    @property
    def rows_between(self) -> int:
        """The number of rows left out between two parts in order."""
        given = self.option.get("gap", 0) if isinstance(self.option, Mapping) else 0
        return max(self.gap, given)

    def at(self, rows: Tensor) -> "Division":
        """The division of these rows alone."""
        values = [self.values[row] for row in rows.tolist()] if self.column else ()
        classes = None if self.classes is None else self.classes[rows]
        return dataclasses.replace(self, size=len(rows), classes=classes, values=values)

    def _in_order(self, rows: Tensor, cut: Callable[[int], tuple[int, int]]) -> Fold:
        """The rows before the gap, and those from the first to the second place.

        `cut` gives the two places for a number of rows.
        """
        before, between, classes = [], [], torch.zeros_like(rows)
        if self.is_by_class and self.classes is not None:
            classes = self.classes[rows]
        for number in torch.unique(classes):
            ordered = rows[classes == number]
            begin, end = cut(len(ordered))
            before.append(ordered[: max(begin - self.rows_between, 0)])
            between.append(ordered[begin:end])
        return torch.cat(before), torch.cat(between)

    def parts(
        self, *, valid: Validation | None, test: float | None, split_seed: int,
        own: Mapping[str, Tensor] | None = None,
    ) -> Parts:  # fmt: skip
        """A fraction `test` of the rows, by default all, a fraction `valid` of the rest, the rest.

        `valid="test"` validates on the test rows; None is for a part from elsewhere. `own` has the
        rows of parts that are given; the fractions are then of its `train` rows.
        Raises: DataError if one of the other parts would be empty, or for values listed wrongly.
        """
        own = own or {}
        rest = own.get("train", torch.arange(self.size))
        held_out = validates = torch.arange(0)
        fraction = None if valid == "test" or "valid" in own else valid
        test = None if "test" in own else test
        if self.kind == "by":
            of_rows = self.at(rest)._listed(fraction is not None, test is not None)
            rest, validates, held_out = (rest[of_rows == part] for part in range(3))
        else:
            if test is not None:
                rest, held_out = self.divided(rest, "test", test, TEST_SEED)
            if fraction is not None:
                rest, validates = self.divided(rest, "valid", float(fraction), split_seed)
        held_out, validates = own.get("test", held_out), own.get("valid", validates)
        return Parts(rest, held_out if valid == "test" else validates, held_out)

    def divided(
        self, rows: Tensor, option: str, fraction: float, seed: int
    ) -> tuple[Tensor, Tensor]:
        """The rest of `rows`, and the `fraction` of them, or of their groups, that is held out.

        Raises: DataError naming the `option` if one of the two would be empty.
        """
        noun, beside, units = "samples", "", torch.arange(self.size)
        if self.kind == "in_order":
            rest, held_out = self._in_order(rows, lambda size: (round(size * (1 - fraction)), size))
            if gap := self.rows_between:
                beside = f", with a gap of {gap} between them"
        elif self.kind == "group":
            noun, units = f"values of {self.column!r}", self._groups
            names = torch.unique(units[rows])
            *_, drawn = stratified_split(torch.zeros_like(names), fraction, seed)
            is_held = torch.isin(units[rows], names[drawn])
            rest, held_out = rows[~is_held], rows[is_held]
        else:
            places = stratified_split(self._classes[rows], fraction, seed)
            rest, held_out = (rows[indices] for indices in places)
        if not (len(rest) and len(held_out)):
            whole, *sizes = (len(torch.unique(units[part])) for part in (rows, rest, held_out))
            raise errors.DataError(
                f"data.{option}={fraction}: divides {whole} {noun} into {sizes[0]} and "
                f"{sizes[1]}{beside}; choose a fraction that leaves {noun} on both sides"
            )
        return rest, held_out

    def _listed(self, *is_needed: bool) -> Int[Tensor, " size"]:
        """The place in `Parts` of the part of each row, as the option lists its value.

        `is_needed`: whether the validation part is of these rows, and the test part.
        """
        option: Any = self.option
        known, places = sorted({*self._texts}), dict[str, int]()
        shown = f"its values are: {readable.joined(known, MOST_SHOWN)}"
        for place, part in enumerate(Parts._fields[1:], 1):
            listed = [*map(str, option.get(part) or ())]
            if bool(listed) != is_needed[place - 1]:
                what = f"leave out its list; data.{part} or data.valid gives that part"
                if not listed:
                    what = f"list values of {self.column!r}, whose samples are held out; {shown}"
                raise errors.DataError(f"data.split.{part}={listed}: {what}")
            for value in listed:
                if value not in known:
                    raise errors.DataError(
                        f"data.split.{part}: {self.column!r} has no value {value!r}"
                        f"{errors.nearest(value, known)}; {shown}"
                    )
                if places.setdefault(value, place) != place:
                    raise errors.DataError(
                        f"data.split: {value!r} is in valid and in test; list it once"
                    )
        if len(places) == len(known):
            raise errors.DataError(
                f"data.split: no value of {self.column!r} is left to train; list fewer of them in "
                f"valid or test; {shown}"
            )
        return torch.tensor([places.get(value, 0) for value in known])[self._groups]

    def fold(self, index: int, number: int, *, seed: int) -> Fold:
        """The rows that train and those that validate, in fold `index` of `number`.

        In order, the rows are cut into one piece more: piece `index` + 1 validates, those before it
        train. Groups are dealt out, the largest first, to the fold with the fewest rows.
        Source: scikit-learn's TimeSeriesSplit and GroupKFold.
        Raises: ValueError if a fold would be empty, or for a single fold.
        """
        def cut(size: int) -> tuple[int, int]:
            length = size // (number + 1)
            if number < 2 or not length or size - number * length <= self.rows_between:
                raise ValueError(
                    f"num_folds={number}: {size} samples in order, with a gap of "
                    f"{self.rows_between}, leave none to train or to validate in a fold; choose "
                    "another number, from 2 on, or a smaller gap"
                )
            begin = size - (number - index) * length
            return begin, begin + length

        if self.kind == "in_order":
            return self._in_order(torch.arange(self.size), cut)
        if self.column is None:
            folds = stratified_folds(self._classes, number, seed=seed)
        else:
            sizes, rows_in = self._groups.bincount(), [0] * number
            if not 2 <= number <= len(sizes):
                raise wrong_number(number, len(sizes), f"values of {self.column!r}")
            fold_of = torch.empty_like(sizes)
            for group in sizes.argsort(descending=True, stable=True).tolist():
                fold = rows_in.index(min(rows_in))
                fold_of[group] = fold
                rows_in[fold] += int(sizes[group])
            of_rows = fold_of[self._groups]
            folds = [(of_rows == fold).nonzero().flatten() for fold in range(number)]
        return torch.cat(folds[:index] + folds[index + 1 :]).sort().values, folds[index]

    def check_apart(self, parts: Mapping[str, Iterable[Any]]) -> None:
        """Raises: DataError if a value of the column that groups is in two of these parts."""
        owners = dict[str, str]()
        for part, values in parts.items() if self.kind == "group" else ():
            for text in sorted({*map(str, values)}):
                if (owner := owners.setdefault(text, part)) != part:
                    raise errors.DataError(
                        f"data.split: {text!r} of {self.column!r} is in {owner} and in {part}; "
                        "remove its samples from one of them, or set data.split=null"
                    )
