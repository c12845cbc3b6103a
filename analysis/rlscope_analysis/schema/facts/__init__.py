"""What a trace says about itself, as codes with parameters; and what each code means.

One table per relation: LOSSES (trace_stat), COVERAGE (coverage), SITES (site), QUALITIES
(calibration). Whoever writes a trace takes codes from here and fills in the parameters; whoever
reads one decides by codes and flags. A code, once released, keeps its meaning; its sentence may be
reworded at any time: nothing but `rlscope_analysis.sentences` reads it.
"""
