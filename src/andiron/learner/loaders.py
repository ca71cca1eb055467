"""What the learner asks of whatever gives it batches."""

from andiron.protocols import Loader


def check(*loaders: object) -> None:
    """Refuses what is no loader of ours, such as torch's, whose order is no function of the epoch.

    Raises: TypeError naming the remedy.
    """
    for loader in loaders:
        if not isinstance(loader, Loader):
            raise TypeError(
                f"{type(loader).__name__} has no epochs; make it with andiron.data.DataLoaderBuilder"
            )
