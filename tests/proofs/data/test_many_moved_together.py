"""100 pictures and masks move together under every augmentation, shipped and of torchvision."""

from proofs import moved_together


def test_no_pixel_disagrees_and_no_class_is_invented():
    kinds, names = moved_together.VOID, moved_together.AUGMENTATIONS
    result = {
        (name, dtype): moved_together.measured(names[name], 100, dtype)
        for name in names for dtype in kinds
    }  # fmt: skip
    assert len(names) >= 27
    wrong = {
        place: value for place, value in result.items()
        if value["agreement"] != 1 or value["invented"] or not value["same types"]
        or value["counted"] < 0.15
    }  # fmt: skip
    assert not wrong
