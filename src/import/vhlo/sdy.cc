// Attributes of the sdy dialect (Shardy) as their text, as MLIR prints them.
// Source: shardy/dialect/sdy/ir/bytecode.td, attrs.td.
#include "import/vhlo/entries.h"

namespace opentrn::import::vhlo {

using graph::Attribute;
using graph::Opaque;

// The texts of a list of attributes, separated by commas.
std::string Entries::joined(Reader& reader) {
  std::string out;
  const size_t count = reader.count();
  for (size_t i = 0; i < count; ++i) {
    const uint64_t index = reader.varint();
    const Attribute& value = attribute(index).value;
    if (i > 0) out += ", ";
    out += value.get<std::string>() ? fmt::format("\"{}\"", *value.get<std::string>())
                                    : std::string(opaque_of(index));
    charge(out.size());
  }
  return out;
}

DecodedAttribute Entries::sdy_attribute(Reader& reader) {
  const uint64_t code = reader.varint();
  const auto made = [](std::string text) { return DecodedAttribute{Attribute(Opaque{std::move(text)})}; };
  switch (code) {
    case 0: return made(fmt::format("#sdy<manual_axes{{{}}}>", joined(reader)));
    case 1: {
      const std::string_view name = container_.string(reader.varint());
      return made(fmt::format("\"{}\"={}", name, reader.signed_varint()));
    }
    case 2: {
      const std::string axes = joined(reader);
      const std::vector<int64_t> devices = integers(reader);
      return made(devices.empty()
                      ? fmt::format("#sdy.mesh<[{}]>", axes)
                      : fmt::format("#sdy.mesh<[{}], device_ids=[{}]>", axes, fmt::join(devices, ", ")));
    }
    case 3: {
      const int64_t before = reader.signed_varint();
      return made(fmt::format("({}){}", before, reader.signed_varint()));
    }
    case 4: {
      const std::string_view name = container_.string(reader.varint());
      const auto [index, present] = reader.varint_with_flag();
      return made(present ? fmt::format("\"{}\":{}", name, opaque_of(index)) : fmt::format("\"{}\"", name));
    }
    case 5: {
      std::string axes = joined(reader);
      const bool closed = reader.byte() != 0;
      if (!closed) axes += axes.empty() ? "?" : ", ?";
      const auto priority = reader.left() > 0 ? reader.varint() : 0;
      return made(fmt::format("{{{}}}{}", axes, priority > 0 ? fmt::format("p{}", priority >> 1) : ""));
    }
    case 6:
    case 15: {
      const Attribute mesh = next_attribute(reader);
      std::string text;
      if (const auto* symbol = mesh.get<graph::SymbolRef>()) text = "@" + symbol->name;
      if (const auto* inlined = mesh.get<Opaque>())
        text = inlined->text.substr(5);  // mesh<...> of #sdy.mesh<...>
      text += fmt::format(", [{}]", joined(reader));
      if (const std::string replicated = joined(reader); !replicated.empty())
        text += fmt::format(", replicated={{{}}}", replicated);
      if (code == 15)
        if (const std::string unreduced = joined(reader); !unreduced.empty())
          text += fmt::format(", unreduced={{{}}}", unreduced);
      return made(fmt::format("#sdy.sharding<{}>", text));
    }
    case 7:
    case 16: {
      std::string all;
      const size_t count = reader.count();
      for (size_t i = 0; i < count; ++i) {
        std::string_view each = opaque_of(reader.varint());
        if (each.starts_with("#sdy.sharding")) each.remove_prefix(13);
        all += (i > 0 ? ", " : "") + std::string(each);
        charge(each.size());
      }
      return made(fmt::format("#sdy.sharding_per_value<[{}]>", all));
    }
    default:
      throw Fault(FaultKind::kNotModelled, "vhlo.bytecode",
                  fmt::format("sdy attribute {} is not read", code));
  }
}

}  // namespace opentrn::import::vhlo
