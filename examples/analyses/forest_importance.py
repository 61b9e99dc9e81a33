"""Columns that a random forest uses to tell who had an affair."""

import pandas as pd
from sklearn.ensemble import RandomForestClassifier

from gencard.run import output, records

frame = records().apply(lambda column: column.astype(str).astype(float))
features = frame.drop(columns="affairs")
forest = RandomForestClassifier(40, min_samples_leaf=20, random_state=1)
forest.fit(features, frame["affairs"] > 0.01)
importance = pd.Series(forest.feature_importances_, index=features.columns, name="importance")
output.table("importance", importance)
