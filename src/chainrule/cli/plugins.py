"""The verb plugins: what other packages bring. It is a verb of its own, since no other speaks of packages."""

from chainrule.cli.shared.results import TO_SCREEN, ResultOptions


def plugins(*, show: ResultOptions = TO_SCREEN) -> None:
    """List the plug-ins of other packages: what they bring, or why they are left out.

        $ chainrule plugins

    A plug-in is an entry point of the group chainrule.plugins; the guide's page
    on plug-ins builds one. Its kinds of models are trained, measured and used by
    the verbs of this program, and its verbs are called as those here.
    """
    from chainrule.verbs.plugins import plugins as list_plugins

    show.check()
    show.show(list_plugins())
