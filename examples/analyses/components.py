"""Principal components of the standardised columns."""

import numpy as np
import pandas as pd

from gencard.run import output, records

frame = records().apply(lambda column: column.astype(str).astype(float))
values = ((frame - frame.mean()) / frame.std()).to_numpy()
_, singular, loadings = np.linalg.svd(values, full_matrices=False)
loadings *= np.sign(loadings[:, :1])  # the sign is arbitrary, so it is fixed
names = [f"component {place}" for place in range(1, 4)]
output.table("loadings", pd.DataFrame(loadings[:3].T, index=frame.columns, columns=names))
output.table("explained", pd.Series((singular**2 / (singular**2).sum())[:3], index=names, name="share"))
