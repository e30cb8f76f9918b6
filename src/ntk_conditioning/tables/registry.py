"""Every table that a run may have, by name."""

from collections.abc import Mapping

from ntk_conditioning.tables import Table
from ntk_conditioning.tables.activations import ACTIVATIONS
from ntk_conditioning.tables.advice import ADVICE
from ntk_conditioning.tables.angles import ANGLES
from ntk_conditioning.tables.architectures import ARCHITECTURES
from ntk_conditioning.tables.bounds import BOUNDS
from ntk_conditioning.tables.claim_experiments import CLAIM_EXPERIMENTS
from ntk_conditioning.tables.claims import CLAIMS
from ntk_conditioning.tables.conditioning import CONDITIONING
from ntk_conditioning.tables.datasets import DATASETS
from ntk_conditioning.tables.finite_width import FINITE_WIDTH
from ntk_conditioning.tables.finite_width_laws import FINITE_WIDTH_LAWS
from ntk_conditioning.tables.frames import FRAMES
from ntk_conditioning.tables.kernels_along_training import KERNELS_ALONG_TRAINING
from ntk_conditioning.tables.learning_rates import LEARNING_RATES
from ntk_conditioning.tables.linearity import LINEARITY
from ntk_conditioning.tables.orthogonality import ORTHOGONALITY
from ntk_conditioning.tables.phase import PHASE
from ntk_conditioning.tables.phase_laws import PHASE_LAWS
from ntk_conditioning.tables.precision import PRECISION
from ntk_conditioning.tables.predictions import PREDICTIONS
from ntk_conditioning.tables.repairs import REPAIRS
from ntk_conditioning.tables.spectra import SPECTRA
from ntk_conditioning.tables.training import TRAINING
from ntk_conditioning.tables.training_kernels import TRAINING_KERNELS
from ntk_conditioning.tables.width_slopes import WIDTH_SLOPES

_KERNELS = (SPECTRA, CONDITIONING, ANGLES, DATASETS, BOUNDS, PHASE, PHASE_LAWS)
_WIDTHS = (FINITE_WIDTH, FINITE_WIDTH_LAWS, REPAIRS)
_STUDIES = (ARCHITECTURES, ORTHOGONALITY, LINEARITY, WIDTH_SLOPES, PRECISION, ACTIVATIONS)
_TRAINING = (TRAINING, TRAINING_KERNELS, LEARNING_RATES, PREDICTIONS, KERNELS_ALONG_TRAINING)
_OTHERS = (CLAIM_EXPERIMENTS, CLAIMS, FRAMES, ADVICE)

#: In the order in which they are documented.
TABLES: Mapping[str, Table] = {
    table.name: table for table in (*_KERNELS, *_WIDTHS, *_STUDIES, *_TRAINING, *_OTHERS)
}
