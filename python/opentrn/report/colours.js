// ---- colours: of a name, the same in every page, so that two pages can be laid side by side

// By engine: Tensor blue, Vector green, Scalar yellow, GpSimd violet, DMA orange; neighbours differ in lightness.
const INSTRUCTION_COLOURS = {
  nc_matmul: "#2f6fc4", nc_matmul_mx: "#1f4e8f", nc_matmul_sparse: "#16345f", nc_transpose: "#8db8ee",
  dma_copy: "#f58518", dma_transpose: "#b3520a", dma_compute: "#fdbf7a", sendrecv: "#8c4a1b",
  tensor_copy: "#2ca25f", tensor_tensor: "#99d8a0", tensor_scalar: "#006d2c", tensor_reduce: "#74a832",
  scalar_tensor_tensor: "#1b8a8a", tensor_scalar_reduce: "#b8d94c", tensor_tensor_scan: "#4fc3a1", reciprocal: "#d9ef8b",
  tensor_partition_reduce: "#9fd8d0", tensor_copy_predicated: "#3f5e2a", memset: "#c7a27c", select_reduce: "#00b386",
  activation: "#e0b400", activation_reduce: "#a67c00", activate2: "#f7e07a", exponential: "#c9a227",
  iota: "#b279a2", affine_select: "#7b3f98", range_select: "#d4a6e0", local_gather: "#3b1f7a", nc_n_gather: "#e377c2",
  custom_op: "#c2185b", bn_stats: "#6b8e23", bn_aggr: "#b5cf6b", max8: "#e15759", nc_find_index8: "#ff9da6",
  nc_match_replace8: "#9c2b2f", topk: "#d62728",
};
const OTHER_COLOURS = ["#7f7f7f", "#9d755d", "#c49c94", "#17a2b8", "#8c6bb1", "#d6604d", "#5b8ff9", "#bcbd22"];

function hashed(name) {
  let sum = 2166136261;
  for (const letter of name) sum = Math.imul(sum ^ letter.codePointAt(0), 16777619) >>> 0;
  return sum;
}
const instructionColour = (name) => INSTRUCTION_COLOURS[name] || OTHER_COLOURS[hashed(name) % OTHER_COLOURS.length];

// Source lines are coloured in the order of the file, so that a line that becomes faster keeps its colour.
const LINE_COLOURS = ["#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#eeca3b", "#9d755d", "#ff9da6",
  "#5b8ff9", "#2ca02c", "#c49c94", "#17becf", "#8c6bb1", "#d6604d", "#7f7f7f"];

const RESOURCE_COLOURS = {
  "Tensor engine": "#4c78a8", "Vector engine": "#54a24b", "Scalar engine": "#eeca3b", "GpSimd engine": "#b279a2",
  "Sync engine": "#9d755d", "DMA engines": "#f58518", "HBM bandwidth": "#e45756", "DMA latency": "#ff9da6",
  descriptors: "#d6a05a", semaphores: "#98a2b3", "shared port": "#72b7b2", "other core": "#7f7f7f", collectives: "#e5484d",
};
const resourceColour = (name) => RESOURCE_COLOURS[name] || OTHER_COLOURS[hashed(name || "") % OTHER_COLOURS.length];

// Text on a colour: black or white, whichever is easier to read.
function inkOn(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255);
  return 0.3 * red + 0.59 * green + 0.11 * blue > 0.6 ? "#1c2330" : "#fff";
}
