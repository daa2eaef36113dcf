"""Functions of `nki.language` that operators take by name: arithmetic, comparisons, activations."""

from __future__ import annotations

from .. import _trace


class LanguageFunction:
    """A function of `nki.language`; as an operand of an instruction only its name matters."""

    __slots__ = ("__name__",)

    def __init__(self, name):
        self.__name__ = name

    def __call__(self, *args, **kwargs):
        raise _trace.error(
            "T0003",
            "calling it on tensors is not supported; use the instruction of nki.isa that takes it as `op`",
            f"nl.{self.__name__}",
        )

    def __repr__(self):
        return f"nl.{self.__name__}"

    def __reduce__(self):
        return (_named, (self.__name__,))

    def __deepcopy__(self, memo):
        return self


NAMES = """
    abs abs_max abs_min add all arctan arithmetic_left_shift arithmetic_right_shift average bitwise_and bitwise_or
    bitwise_xor bypass ceil copy cos divide dropout equal erf erf_dx exp floor fmod gelu gelu_apprx_sigmoid
    gelu_apprx_sigmoid_dx gelu_apprx_tanh gelu_dx greater greater_equal invert left_shift less less_equal log
    logical_and logical_not logical_or logical_xor max maximum mean min minimum mish mod multiply negative not_equal
    power prelu prod reciprocal relu right_shift rms_norm rsqrt sigmoid sign silu silu_dx sin softmax softplus sqrt
    square subtract sum tan tanh trunc var where
""".split()

FUNCTIONS = {name: LanguageFunction(name) for name in NAMES}


def _named(name):
    return FUNCTIONS[name]
