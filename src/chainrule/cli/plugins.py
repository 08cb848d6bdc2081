"""The verb plugins: what other packages bring. It is a verb of its own, since no other speaks of packages."""

from chainrule.cli.shared.results import TO_SCREEN, ResultOptions


def plugins(*, show: ResultOptions = TO_SCREEN) -> None:
    """List the plug-ins of other packages, with their verbs and models, which no list here has.

        $ chainrule plugins

    A plug-in is an entry point of the group chainrule.plugins; the guide's page
    on plug-ins builds one. The verbs of this program train, measure and use its
    models, and its own verbs are called like any other. A plug-in that cannot
    be used is listed with the reason.
    """
    from chainrule.verbs.plugins import plugins as list_plugins

    show.check()
    show.show(list_plugins())
