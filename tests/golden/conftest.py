"""`--update` writes what comes out into golden pairs that exist; it never makes one."""


def pytest_addoption(parser):
    parser.addoption(
        "--update", action="store_true", help="rewrite the expectations of existing golden pairs"
    )
