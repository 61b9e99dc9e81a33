#!/usr/bin/env Rscript
# Logistic regression with standard errors that hold where the variance is another one (HC0).

frame <- records()
fit <- glm(affairs > 0.01 ~ rate_marriage + religious + educ, binomial, frame)
scores <- model.matrix(fit) * residuals(fit, "response")
covariance <- vcov(fit) %*% crossprod(scores) %*% vcov(fit)
error <- sqrt(diag(covariance))
statistic <- coef(fit) / error
output$coefficients("any affair, robust", data.frame(
  estimate = coef(fit),
  standard_error = error,
  statistic = statistic,
  pvalue = 2 * pnorm(-abs(statistic))
))
