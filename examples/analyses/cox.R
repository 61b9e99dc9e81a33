#!/usr/bin/env Rscript
# Proportional hazards: years married until an affair, as far as a survey of one day can tell.

library(survival)

frame <- records()
frame$years <- as.numeric(as.character(frame$yrs_married))
fit <- coxph(Surv(years, affairs > 0.01) ~ rate_marriage + religious, frame, ties = "efron")
output$coefficients("hazard of an affair", fit)
