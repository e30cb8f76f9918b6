from ntk_conditioning.kernels.modules import ntk as ntk
from ntk_conditioning.kernels.operator import ntk_operator as ntk_operator
from ntk_conditioning.spectra.operators import condition as condition
from ntk_conditioning.version import __version__ as __version__

__all__ = ["__version__", "condition", "ntk", "ntk_operator"]
