//! Plots, as SVG.
