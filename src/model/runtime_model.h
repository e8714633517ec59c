// A compiled module as the runtime's model, and values on the way in and out of it.
//
// The compiler knows graphs and no device, the runtime devices and no graph; whoever compiles and runs goes
// through here. A type that the device has no form of (64 bits) is another one there; all others are read and
// handed out in place.
#pragma once

#include <memory>
#include <span>

#include "arch/arch.h"
#include "compiler/compile.h"
#include "graph/literal.h"
#include "runtime/model.h"
#include "sim/functional/buffer.h"

namespace opentrn::model {

// Weights in a file of the user's stay there, and keep their place in it.
runtime::Model model_of(const compiler::CompiledModule& compiled, Generation generation);

// The value as the device holds it. The second keeps nothing alive: `bytes`, row-major, outlive the buffer
// where compiler::same_on_device() is true of the type.
std::shared_ptr<sim::Buffer> device_buffer(const graph::Literal& value);
std::shared_ptr<sim::Buffer> device_buffer(const graph::Type& type, std::span<const std::byte> bytes);

// The other way; shares the buffer's memory where it can.
graph::Literal host_literal(const graph::Type& type, const std::shared_ptr<sim::Buffer>& buffer);

}  // namespace opentrn::model
