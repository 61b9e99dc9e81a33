"""A percentile interval of a difference of means, by 500 resamples."""

import numpy as np

from gencard.run import output, records, rng

frame = records()
generator = rng()
devout = frame.loc[frame["religious"] >= 3, "rate_marriage"].to_numpy()
others = frame.loc[frame["religious"] < 3, "rate_marriage"].to_numpy()
gaps = [
    generator.choice(devout, len(devout)).mean() - generator.choice(others, len(others)).mean()
    for _ in range(500)
]
low, high = np.quantile(gaps, [0.025, 0.975])
output.scalar("gap in rating", devout.mean() - others.mean())
output.scalar("gap in rating, 2.5 %", low)
output.scalar("gap in rating, 97.5 %", high)
