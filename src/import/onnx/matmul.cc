// Matrix products and Einsum.
#include <algorithm>
#include <map>

#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

void import_matmul(Node& n) { n.set(0, n.emit.matmul(n.in(0), n.in(1))); }

void import_gemm(Node& n) {
  const Emit& e = n.emit;
  n.check(n.rank(0) == 2 && n.rank(1) == 2, "operands of rank {} and {}", n.rank(0), n.rank(1));
  const int64_t a_axis = n.flag("transA", false) ? 0 : 1;
  const int64_t b_axis = n.flag("transB", false) ? 1 : 0;
  ValueId y = e.dot_general(n.in(0), n.in(1), {}, {}, {a_axis}, {b_axis});
  const double alpha = n.real("alpha", 1);
  const double beta = n.real("beta", 1);
  if (alpha != 1) y = e.mul(y, alpha);
  if (n.has(2)) y = e.add(y, e.broadcast_to(beta == 1 ? n.in(2) : e.mul(n.in(2), beta), e.dims(y)));
  n.set(0, y);
}

namespace {

// One operand of an Einsum with one distinct letter per dimension.
struct Term {
  ValueId value;
  std::string letters;
};

// Ellipsis dimensions get the letters that no equation has: control characters, the last first.
constexpr char kEllipsisFirst = 1;

std::string expanded(const Node& n, const std::string& letters, int64_t rank) {
  std::string plain;
  for (size_t i = 0; i < letters.size(); ++i) {
    if (letters[i] == ' ') continue;
    if (letters[i] != '.') {
      plain += letters[i];
      continue;
    }
    n.check(letters.compare(i, 3, "...") == 0, "term '{}'", letters);
    i += 2;
    int64_t named = 0;
    for (const char c : letters) named += c != '.' && c != ' ';
    n.check(rank >= named && rank - named < 16, "term '{}' for rank {}", letters, rank);
    for (int64_t k = rank - named; k-- > 0;) plain += static_cast<char>(kEllipsisFirst + k);
  }
  return plain;
}

// Repeated letters take the diagonal.
Term diagonal(const Emit& e, Term term) {
  for (size_t i = 0; i < term.letters.size(); ++i) {
    const size_t j = term.letters.find(term.letters[i], i + 1);
    if (j == std::string::npos) continue;
    const Dims dims = e.dims(term.value);
    const ValueId row = e.iota(ElementType::kI64, dims, static_cast<int64_t>(i));
    const ValueId column = e.iota(ElementType::kI64, dims, static_cast<int64_t>(j));
    const ValueId on = e.compare(ComparisonDirection::kEq, row, column);
    term.value = e.sum(e.select(on, term.value, e.like(term.value, 0)), {static_cast<int64_t>(j)}, false);
    term.letters.erase(j, 1);
    --i;
  }
  return term;
}

bool has(const std::string& letters, char c) { return letters.find(c) != std::string::npos; }

// Sums over letters that `needed` does not have.
Term summed(const Emit& e, Term term, const std::string& needed) {
  Dims axes;
  std::string kept;
  for (size_t i = 0; i < term.letters.size(); ++i) {
    if (has(needed, term.letters[i]))
      kept += term.letters[i];
    else
      axes.push_back(static_cast<int64_t>(i));
  }
  return {axes.empty() ? term.value : e.sum(term.value, axes, false), kept};
}

int64_t place(const std::string& letters, char c) { return static_cast<int64_t>(letters.find(c)); }

// Two terms joined: letters that both have and the rest needs are batch, other shared ones are contracted.
Term joined(const Node& n, Term a, Term b, const std::string& needed) {
  const Emit& e = n.emit;
  a = summed(e, std::move(a), b.letters + needed);
  b = summed(e, std::move(b), a.letters + needed);
  // Sizes of 1 broadcast.
  for (const auto& [self, other] : {std::pair(&a, &b), std::pair(&b, &a)})
    for (const char c : std::string(self->letters)) {
      if (!has(other->letters, c)) continue;
      const int64_t mine = e.dim(self->value, place(self->letters, c));
      const int64_t theirs = e.dim(other->value, place(other->letters, c));
      n.check(mine == theirs || mine == 1 || theirs == 1, "a letter stands for {} and {}", mine, theirs);
      if (mine != 1 || theirs == 1) continue;
      Dims dims = e.dims(self->value);
      dims[static_cast<size_t>(place(self->letters, c))] = theirs;
      self->value = e.broadcast_to(self->value, dims);
    }
  Dims ab, bb, ac, bc;
  std::string batch, left, right;
  for (const char c : a.letters) {
    if (!has(b.letters, c)) {
      left += c;
    } else if (has(needed, c)) {
      batch += c;
      ab.push_back(place(a.letters, c));
      bb.push_back(place(b.letters, c));
    } else {
      ac.push_back(place(a.letters, c));
      bc.push_back(place(b.letters, c));
    }
  }
  for (const char c : b.letters)
    if (!has(a.letters, c)) right += c;
  return {e.dot_general(a.value, b.value, ab, bb, ac, bc), batch + left + right};
}

}  // namespace

void import_einsum(Node& n) {
  const Emit& e = n.emit;
  const std::string equation = n.string("equation", "");
  const auto belongs = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == ',' || c == ' ' || c == '-' ||
           c == '>';
  };
  n.check(std::ranges::all_of(equation, belongs), "the equation has more than letters, '.', ',' and '->'");
  const size_t arrow = equation.find("->");
  std::vector<Term> terms;
  std::string inputs = equation.substr(0, arrow) + ",";
  for (size_t begin = 0, end = 0; (end = inputs.find(',', begin)) != std::string::npos; begin = end + 1) {
    n.check(terms.size() < n.input_count(), "equation '{}' for {} inputs", equation, n.input_count());
    const ValueId value = n.in(terms.size());
    const std::string letters = expanded(n, inputs.substr(begin, end - begin), e.rank(value));
    n.check(static_cast<int64_t>(letters.size()) == e.rank(value), "equation '{}' for rank {}", equation,
            e.rank(value));
    terms.push_back(diagonal(e, {value, letters}));
  }
  n.check(terms.size() == n.input_count(), "equation '{}' for {} inputs", equation, n.input_count());
  std::map<char, int> seen;
  size_t ellipsis = 0;
  for (const Term& term : terms)
    for (const char c : term.letters) {
      ++seen[c];
      if (c < 16) ellipsis = std::max(ellipsis, static_cast<size_t>(c));
    }
  std::string output;
  if (arrow != std::string::npos) {
    const std::string written = equation.substr(arrow + 2);
    const auto named = static_cast<int64_t>(
        std::count_if(written.begin(), written.end(), [](char c) { return c != '.' && c != ' '; }));
    output = expanded(n, written, named + static_cast<int64_t>(ellipsis));
  } else {
    // Without an arrow: the ellipsis, then letters that occur once, in alphabetical order.
    for (size_t k = ellipsis; k > 0; --k) output += static_cast<char>(k);
    for (const auto& [c, count] : seen)
      if (c >= 16 && inputs.find(c) == inputs.rfind(c)) output += c;
  }
  for (const char c : output) n.check(seen.contains(c), "an output letter of '{}' is in no input", equation);
  for (const char c : output)
    n.check(output.find(c) == output.rfind(c), "an output letter of '{}' stands there twice", equation);
  Term result = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    std::string needed = output;
    for (size_t k = i + 1; k < terms.size(); ++k) needed += terms[k].letters;
    result = joined(n, std::move(result), terms[i], needed);
  }
  result = summed(e, std::move(result), output);
  Dims permutation;
  for (const char c : output) permutation.push_back(place(result.letters, c));
  n.set(0, e.transpose(result.value, permutation));
}

}  // namespace opentrn::import::onnx
