from ntk_conditioning.kernels.modules import ntk as ntk
from ntk_conditioning.spectra.in_words import condition as condition
