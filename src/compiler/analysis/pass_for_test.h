// What the tests of passes share: StableHLO text through a pass, as text again; and values before and after
// it by the reference evaluator.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "compiler/analysis/recurrence_call.h"
#include "graph/element_value.h"
#include "graph/eval/evaluate.h"
#include "graph/text/text.h"
#include "graph/verify.h"

namespace opentrn::compiler {

using PassUnderTest = std::function<void(graph::Function&)>;

// "main" with this signature, for example "(%x: tensor<4xf32>) -> tensor<4xf32>", and this body.
inline std::string main_of(std::string_view signature, std::string_view body) {
  return "func.func public @main" + std::string(signature) + " {\n" + std::string(body) + "\n}\n";
}

inline graph::Module parsed(std::string_view text) {
  graph::Module module = graph::parse_module(text, "test.mlir");
  graph::verify(module);
  return module;
}

// As the printer writes it, so that names of values do not matter.
inline std::string printed(std::string_view text) { return graph::print_module(parsed(text)); }

// The module after the pass has changed its entry, which still verifies.
inline graph::Module passed(std::string_view text, const PassUnderTest& pass) {
  graph::Module module = parsed(text);
  pass(module.entry());
  graph::verify(module);
  return module;
}

inline std::string after(std::string_view text, const PassUnderTest& pass) {
  return graph::print_module(passed(text, pass));
}

// Every value of a tensor is drawn from [-range, range], integers too.
inline graph::Literal random_literal(const graph::Type& type, double range, std::mt19937_64& random) {
  const graph::ElementType element = type.element();
  const graph::ElementType part = graph::real_part(element);
  const size_t count = static_cast<size_t>(type.element_count()) * (graph::is_complex(element) ? 2 : 1);
  const size_t width = static_cast<size_t>(graph::storage_bytes(part));
  std::vector<std::byte> bytes(count * width);
  std::uniform_real_distribution<double> real(-range, range);
  std::uniform_int_distribution<int64_t> whole(
      graph::is_signed_integer(part) ? -static_cast<int64_t>(range) : 0, static_cast<int64_t>(range));
  for (size_t i = 0; i < count; ++i) {
    std::byte* const at = bytes.data() + i * width;
    if (graph::is_bool(part))
      *at = std::byte{static_cast<unsigned char>(random() & 1)};
    else if (graph::is_integer(part))
      graph::store_integer(part, whole(random), at);
    else
      graph::store_real(part, real(random), at);
  }
  return {type, std::move(bytes)};
}

// Numbers of a result, one per real part.
inline std::vector<double> numbers_of(const graph::Literal& literal) {
  const graph::ElementType part = graph::real_part(literal.type().element());
  const std::vector<std::byte> bytes = literal.dense();
  const size_t width = static_cast<size_t>(graph::storage_bytes(part));
  std::vector<double> numbers;
  for (size_t at = 0; at < bytes.size(); at += width)
    numbers.push_back(graph::is_float(part)
                          ? graph::load_real(part, bytes.data() + at)
                          : static_cast<double>(graph::load_integer(part, bytes.data() + at)));
  return numbers;
}

// @opentrn.recurrence as recurrence_call.h says it, element by element.
inline std::vector<graph::eval::RuntimeValue> evaluated_recurrence(
    const graph::Op& op, const graph::Module&, std::span<const graph::eval::RuntimeValue> operands) {
  const auto call = RecurrenceCall::of(op);
  if (!call) throw std::runtime_error("a custom call that only a device computes");
  const auto met = [](graph::OpKind kind, float a, float b) {
    switch (kind) {
      case graph::OpKind::multiply_: return a * b;
      case graph::OpKind::add_: return a + b;
      case graph::OpKind::maximum_: return std::max(a, b);
      default: return std::min(a, b);
    }
  };
  const graph::Type type = operands[1].literal().type();
  const auto factors = numbers_of(operands[0].literal()), data = numbers_of(operands[1].literal()),
             start = numbers_of(operands[2].literal());
  const size_t length = static_cast<size_t>(type.dims().back());
  std::vector<std::byte> bytes(data.size() * sizeof(float));
  float before = 0;
  for (size_t number = 0; number < data.size(); ++number) {
    const size_t i = call->is_backward ? data.size() - 1 - number : number;
    if (number % length == 0) before = static_cast<float>(start[i / length]);
    before = met(call->second, met(call->first, static_cast<float>(factors[i]), before),
                 static_cast<float>(data[i]));
    std::memcpy(bytes.data() + i * sizeof(float), &before, sizeof(float));
  }
  return {{graph::Literal(type, std::move(bytes))}};
}

// The pass keeps what the program computes of three random inputs: to the bit where `tolerance` is 0, else to
// that share of the value, or of one where the value is smaller.
inline void expect_same_values(std::string_view text, const PassUnderTest& pass, double tolerance = 0,
                               double range = 4) {
  const graph::Module before = parsed(text), then = passed(text, pass);
  std::mt19937_64 random(20261124);
  for (int draw = 0; draw < 3; ++draw) {
    std::vector<graph::eval::RuntimeValue> arguments;
    for (const graph::ValueId argument : before.entry().arguments())
      arguments.push_back({random_literal(before.entry().type(argument), range, random)});
    const auto wanted = graph::eval::evaluate(before, before.entry(), arguments);
    const auto found =
        graph::eval::evaluate(then, then.entry(), arguments, {.custom_call = evaluated_recurrence});
    ASSERT_EQ(wanted.size(), found.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      const auto a = numbers_of(wanted[i].literal()), b = numbers_of(found[i].literal());
      ASSERT_EQ(wanted[i].literal().type().to_string(), found[i].literal().type().to_string());
      ASSERT_EQ(a.size(), b.size());
      for (size_t at = 0; at < a.size(); ++at) {
        if (std::isnan(a[at]) && std::isnan(b[at])) continue;
        const bool same = std::signbit(a[at]) == std::signbit(b[at]) && a[at] == b[at];
        const bool close = std::abs(a[at] - b[at]) <= tolerance * std::max(1.0, std::abs(a[at]));
        ASSERT_TRUE(tolerance == 0 ? same : same || close)
            << "result " << i << " element " << at << ": " << a[at] << " became " << b[at] << "\n"
            << graph::print_module(then);
      }
    }
  }
}

// A program before and after a pass, each with the same signature.
struct PassCase {
  const char *name, *signature, *before, *after;
};

// The pass writes what the cases say, and keeps what they compute.
inline void expect_cases(std::span<const PassCase> cases, const PassUnderTest& pass, double tolerance = 0) {
  for (const PassCase& given : cases) {
    SCOPED_TRACE(given.name);
    const std::string text = main_of(given.signature, given.before);
    EXPECT_EQ(after(text, pass), printed(main_of(given.signature, given.after)));
    expect_same_values(text, pass, tolerance);
  }
}

}  // namespace opentrn::compiler
