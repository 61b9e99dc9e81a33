#!/usr/bin/env Rscript
# Ordinary least squares with a formula.

output$coefficients("affairs", lm(affairs ~ rate_marriage + religious + educ, records()))
