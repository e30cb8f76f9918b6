"""The table of drawn speech frames: where in the corpus each row of a speech dataset comes from."""

from __future__ import annotations

import pyarrow as pa

from ntk_conditioning.tables import Column, Table

FRAMES = Table(
    name="frames",
    description="The frames of a speech dataset, in the order of the dataset's rows.",
    keys=("speaker", "chapter", "utterance", "frame"),
    columns=(
        Column("speaker", pa.int64(), "number of the speaker in the corpus"),
        Column("chapter", pa.int64(), "number of the chapter"),
        Column("utterance", pa.int64(), "number of the utterance within the chapter, from 0"),
        Column("frame", pa.int64(), "number of the frame within the utterance, from 0"),
        Column("label", pa.int64(), "class of the frame, from 0"),
        Column("label_name", pa.string(), "what the class is: a phone, or a speaker's number"),
    ),
)
