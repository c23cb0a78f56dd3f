import pytest

from tests.harness.kernel import World


@pytest.fixture(params=["pooled", "sim"])
def make_world(request):
    yield from worlds_of(request.param)


@pytest.fixture
def make_pooled():
    """Make worlds for what only real threads can do: hold one up."""
    yield from worlds_of("pooled")


def worlds_of(kind):
    worlds = []

    def make(**options):
        worlds.append(World(kind, **options))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


@pytest.fixture
def world(make_world):
    return make_world()
