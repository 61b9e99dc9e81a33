"""Two tests without normality: Kruskal-Wallis over groups, Mann-Whitney between two."""

from scipy import stats

from gencard.run import output, records

frame = records()
groups = [frame.loc[frame["religious"] == level, "affairs"] for level in (1, 2, 3, 4)]
kruskal = stats.kruskal(*groups)
output.scalar("Kruskal-Wallis, H", kruskal.statistic)
output.scalar("Kruskal-Wallis, p", kruskal.pvalue)
whitney = stats.mannwhitneyu(groups[0], groups[3])
output.scalar("Mann-Whitney, U", whitney.statistic)
output.scalar("Mann-Whitney, p", whitney.pvalue)
