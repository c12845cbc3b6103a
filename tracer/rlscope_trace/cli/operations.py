"""What `record` does so that a target reports its operations, and what it says where it cannot."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rlscope_analysis.schema.facts.fact import Fact
from rlscope_analysis.sentences import coverage_sentence, fact_sentence
from rlscope_trace.cli import messages
from rlscope_trace.errors import TargetGoneError, TracerError
from rlscope_trace.record import shims
from rlscope_trace.record.inject import InjectionError, inject_shim
from rlscope_trace.record.launch import program_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlscope_trace.cli.gpu import GpuCapture
    from rlscope_trace.privileges import Identity
    from rlscope_trace.record.session import Session
    from rlscope_trace.record.target import Target

_NOT_LAUNCHED = shims.Verdict(False, Fact("not_launched", "NVTX"))
_HOW_TO_GET_THEM = "--inject loads one, or start the program with: rlscope-trace -- COMMAND"


@dataclass(slots=True)
class OperationCapture:
    """How the operations of one recording are had."""

    auto: bool
    """Find phases of programs that mark none."""
    modules: str
    """Whose NVTX ranges are heard besides the usual ones: see shims.Request."""
    gpu: GpuCapture
    """Of the same shim."""
    own_phases: str = ""
    """Rows of the user's for the table of phases."""
    jax_profile: str = ""
    """When JAX profiles, and where to."""
    session: str = field(default_factory=shims.new_session)
    """Where programs report."""
    is_named: bool = False
    """Whether others know the session: programs that are started later report there, too."""
    verdict: shims.Verdict = _NOT_LAUNCHED
    _hint: str | None = _HOW_TO_GET_THEM

    def __post_init__(self) -> None:
        if not self.is_wanted:
            self.verdict = shims.Verdict(False, shims.NOT_ASKED_FOR)

    @property
    def is_wanted(self) -> bool:
        """Whether operations are to be recorded at all."""
        return self.modules != shims.NVTX_OFF

    @property
    def has_shim(self) -> bool:
        """Whether anything is recorded by the shim."""
        return self.is_wanted or self.gpu.is_wanted

    def environment(
        self, command: list[str], environment: dict[str, str], identity: Identity | None
    ) -> dict[str, str]:
        """Return the environment of a program to launch, so that it reports its operations."""
        self._hint = None
        injection = shims.inject(
            environment,
            shims.Request(
                self.session,
                self.auto,
                self.modules,
                self.own_phases,
                self.jax_profile,
                self.gpu.settings,
            ),
            program=program_file(command, environment),
            identity=identity,
        )
        self.gpu.launched(injection)
        self.verdict = injection.operations
        return injection.environment

    def inject_late(self, targets: Sequence[Target], session: Session) -> None:
        """Load the shim into running processes; what cannot be had is said and stored."""
        self._hint = None
        for found in targets:
            try:
                result = inject_shim(
                    found.pid, shims.LIBRARY, auto=self.auto,
                    environment=shims.late_environment(
                        self.session, self.modules, self.gpu.settings
                    ),
                )  # fmt: skip
            except TracerError as error:
                _say_refusal(error)
                session.note_late(found.pid, measured=False, facts=_refusal(found.pid, error))
                continue
            for fact in result.captured:
                messages.say(f"pid {found.pid}: {fact_sentence(fact)}")
            for fact in result.missing:
                messages.note(f"pid {found.pid}: {fact_sentence(fact)}")
            self.gpu.injected()
            session.facts["gpu"] = self.gpu.facts()
            session.note_late(found.pid, measured=True, facts=result.missing)

    def tell(self, session: Session, targets: Sequence[Target]) -> None:
        """Say at the start, not only in the summary, that something cannot be had."""
        self.gpu.tell(targets)
        if self.is_named:
            return
        if self.is_wanted and not self.verdict.measured and not session.find_shims():
            if session.all_taken():
                self._warn(shims.TAKEN, "stop it first")
                return
            self._warn(self.verdict.fact, self._hint)

    def _warn(self, fact: Fact, hint: str | None) -> None:
        why = coverage_sentence([fact], measured=False)
        messages.warning(f"operations are not recorded: {why}", hint)

    def facts(self) -> dict[str, object]:
        """Return what the spool holds for the table coverage."""
        return {"operations": self.verdict.to_json(), "gpu": self.gpu.facts()}


def _refusal(pid: int, error: TracerError) -> tuple[Fact, ...]:
    """Return why the shim was not loaded into a process."""
    if isinstance(error, InjectionError):
        return error.facts
    if isinstance(error, TargetGoneError):
        return (Fact("late_target_gone", count=pid),)
    return (Fact("late_not_loaded", detail=str(error), count=pid),)


def _say_refusal(error: TracerError) -> None:
    if isinstance(error, InjectionError):
        messages.warning(coverage_sentence(error.facts, measured=False), error.hint)
    else:
        messages.failure(error, "warning")
