// From the IR section of a container to a graph::Module.
#include <algorithm>
#include <bit>
#include <optional>
#include <unordered_map>

#include "base/interrupt.h"
#include "graph/own_attribute.h"
#include "graph/text/spelling.h"
#include "import/vhlo.h"
#include "import/vhlo/container.h"
#include "import/vhlo/entries.h"
#include "import/vhlo/properties.h"

namespace opentrn::import {

namespace vhlo {

namespace {

using graph::Attr;
using graph::Attribute;
using graph::BlockId;
using graph::Function;
using graph::Module;
using graph::OpId;
using graph::OpKind;
using graph::Type;
using graph::ValueId;

// What an op has. Source: mlir/lib/Bytecode/Encoding.h, OpEncodingMask.
enum Mask : uint8_t {
  kHasAttributes = 0x01,
  kHasResults = 0x02,
  kHasOperands = 0x04,
  kHasSuccessors = 0x08,
  kHasRegions = 0x10,
  kHasUseLists = 0x20,
  kHasProperties = 0x40,
};
constexpr uint64_t kWithSections = 2;        // isolated regions in sections of their own
constexpr uint64_t kWithUseLists = 3;        // orders of uses
constexpr uint64_t kWithoutUnknownLocs = 4;  // arguments without a location
constexpr int kRegionDepthMax = 200;
constexpr uint64_t kValuesPerByteMax = 16;

struct EncodedOp {
  OpName name;
  graph::LocationId location = graph::kNoLocation;
  std::vector<std::pair<std::string, const DecodedAttribute*>> attributes;
  std::vector<Type> results;
  std::vector<uint64_t> operands;
  size_t regions = 0;
  bool isolated = false;

  const DecodedAttribute* find(std::string_view key) const {
    for (const auto& [name, value] : attributes)
      if (name == key) return value;
    return nullptr;
  }
  std::string text(std::string_view key) const {
    const DecodedAttribute* found = find(key);
    const auto* text = found ? found->value.get<std::string>() : nullptr;
    if (!text) fail(fmt::format("{}.{} has no string {}", this->name.dialect, this->name.name, key));
    return *text;
  }
};

// The values of one isolated region and the regions inside, by number.
struct Scope {
  std::vector<std::optional<ValueId>> values;
  std::vector<size_t> next;  // per open region
};

class ModuleReader {
 public:
  ModuleReader(const Container& container, std::shared_ptr<const void> owner, const VhloOptions& options)
      : container_(container), entries_(container, std::move(owner)), options_(options) {}

  Module read() {
    Reader reader(container_.program.data, container_.program.offset);
    scopes_.emplace_back();
    open_region(0);
    size_t ops = block_header(reader, nullptr);
    for (; ops > 0; --ops) {
      const EncodedOp op = read_op(reader);
      if (op.name.dialect != "builtin" || op.name.name != "module" || op.regions != 1)
        not_taken(op, "at the top");
      read_module(op, reader);
    }
    return std::move(module_);
  }

 private:
  [[noreturn]] void not_taken(const EncodedOp& op, std::string_view where) const {
    throw Fault(FaultKind::kNotModelled, "vhlo.bytecode",
                fmt::format("op {}.{} is not taken {}", op.name.dialect, op.name.name, where));
  }

  // --- regions and blocks
  void open_region(uint64_t values) {
    Scope& scope = scopes_.back();
    scope.next.push_back(scope.values.size());
    scope.values.resize(scope.values.size() + static_cast<size_t>(values));
  }
  void close_region(uint64_t values) {
    Scope& scope = scopes_.back();
    scope.next.pop_back();
    scope.values.resize(scope.values.size() - static_cast<size_t>(values));
  }
  void define(ValueId id) {
    Scope& scope = scopes_.back();
    size_t& next = scope.next.back();
    if (next >= scope.values.size()) fail("a region defines more values than it announced");
    scope.values[next++] = id;
  }
  ValueId use(uint64_t number) const {
    const Scope& scope = scopes_.back();
    if (number >= scope.values.size() || !scope.values[static_cast<size_t>(number)])
      fail(fmt::format("value {} is used and not defined before", number));
    return *scope.values[static_cast<size_t>(number)];
  }

  // Returns the number of ops. `add`: takes the arguments' types; null where none may be.
  template <typename Add>
  size_t block_header_with(Reader& reader, Add&& add) {
    const auto [ops, has_arguments] = reader.varint_with_flag();
    if (ops > reader.left()) fail(fmt::format("{} ops announced at offset {}", ops, reader.offset()));
    if (has_arguments) {
      const size_t count = reader.count();
      for (size_t i = 0; i < count; ++i) {
        bool located = true;
        uint64_t type = 0;
        if (container_.version >= kWithoutUnknownLocs) {
          std::tie(type, located) = reader.varint_with_flag();
        } else {
          type = reader.varint();
        }
        if (located) (void)reader.varint();
        add(entries_.value_type(type));
      }
      if (container_.version >= kWithUseLists && reader.byte() != 0) use_lists(reader, count);
    }
    return static_cast<size_t>(ops);
  }
  size_t block_header(Reader& reader, std::nullptr_t) {
    return block_header_with(reader, [](const Type&) { fail("a module takes no arguments"); });
  }

  // The order of uses, which means nothing here.
  void use_lists(Reader& reader, size_t values) {
    const size_t lists = values > 1 ? reader.count() : 1;
    for (size_t i = 0; i < lists; ++i) {
      if (values > 1) (void)reader.varint();
      const uint64_t count = reader.varint_with_flag().first;
      if (count > reader.left()) fail(fmt::format("{} uses announced at offset {}", count, reader.offset()));
      for (uint64_t use = 0; use < count; ++use) (void)reader.varint();
    }
  }

  // Reads `count` regions with `read(reader)` each; isolated ones lie in a section of their own.
  template <typename Read>
  void regions(const EncodedOp& op, Reader& reader, Read&& read) {
    if (op.regions == 0) return;
    if (++depth_ > kRegionDepthMax) fail("regions nest deeper than 200 levels");
    const bool sectioned = op.isolated && container_.version >= kWithSections;
    std::optional<Reader> own;
    if (sectioned) {
      const Section section = read_section(reader);
      if (section.id != kProgramSection)
        fail(fmt::format("section {} where a region is expected", section.id));
      own.emplace(section.data, section.offset);
    }
    if (op.isolated) scopes_.emplace_back();
    Reader& from = sectioned ? *own : reader;
    for (size_t i = 0; i < op.regions; ++i) {
      const uint64_t blocks = from.varint();
      const uint64_t values = blocks > 0 ? from.varint() : 0;
      if (blocks > 1)
        throw Fault(FaultKind::kNotModelled, "vhlo.bytecode", "a region of several blocks is not taken");
      // Each value takes a byte at least; an outer region may announce those of inner ones as well.
      if (values > from.left() || (values_ += values) > kValuesPerByteMax * container_.program.data.size())
        fail(fmt::format("{} values announced at offset {}", values, from.offset()));
      open_region(values);
      read(from, blocks > 0);
      close_region(values);
    }
    if (op.isolated) scopes_.pop_back();
    --depth_;
  }

  // --- ops
  EncodedOp read_op(Reader& reader) {
    EncodedOp op;
    const uint64_t name = reader.varint();
    if (name >= container_.op_names.size())
      fail(fmt::format("op name {} of {}", name, container_.op_names.size()));
    op.name = container_.op_names[static_cast<size_t>(name)];
    const uint8_t mask = reader.byte();
    op.location = location(reader.varint());
    if (mask & kHasAttributes) {
      const DecodedAttribute& all = entries_.attribute(reader.varint());
      if (!all.value.as_dictionary()) fail("an op's attributes are not a dictionary");
      for (const auto& [key, index] : all.members)
        op.attributes.emplace_back(key, &entries_.attribute(index));
    }
    if (mask & kHasProperties) read_properties(op, reader.varint());
    if (mask & kHasResults) {
      const size_t count = reader.count();
      for (size_t i = 0; i < count; ++i) op.results.push_back(entries_.value_type(reader.varint()));
    }
    if (mask & kHasOperands) {
      const size_t count = reader.count();
      for (size_t i = 0; i < count; ++i) op.operands.push_back(reader.varint());
    }
    if (mask & kHasSuccessors)
      throw Fault(FaultKind::kNotModelled, "vhlo.bytecode", "branches to other blocks are not taken");
    if (mask & kHasUseLists) use_lists(reader, op.results.size());
    if (mask & kHasRegions) {
      const auto [count, isolated] = reader.varint_with_flag();
      if (count > 1 << 16) fail(fmt::format("{} regions", count));
      op.regions = static_cast<size_t>(count);
      op.isolated = isolated;
    }
    return op;
  }

  void read_properties(EncodedOp& op, uint64_t index) {
    if (index >= container_.properties.size())
      fail(fmt::format("properties {} of {}", index, container_.properties.size()));
    const Entry& entry = container_.properties[static_cast<size_t>(index)];
    Reader reader(entry.data, entry.offset);
    const std::vector<std::string_view> names = op.name.dialect == "vhlo"
                                                    ? vhlo_properties(op.name.name)
                                                    : other_properties(op.name.dialect, op.name.name);
    for (std::string_view name : names) {
      if (name.ends_with('?')) {
        const auto [attribute, present] = reader.varint_with_flag();
        name.remove_suffix(1);
        if (present) op.attributes.emplace_back(name, &entries_.attribute(attribute));
      } else {
        op.attributes.emplace_back(name, &entries_.attribute(reader.varint()));
      }
    }
    if (names.empty()) return;  // an op that is refused by name where it stands
    if (!reader.empty())
      fail(fmt::format("{}.{} has properties of a version that is not known (offset {})", op.name.dialect,
                       op.name.name, reader.offset()));
  }

  graph::LocationId location(uint64_t attribute) {
    const auto known = locations_.find(attribute);
    if (known != locations_.end()) return known->second;
    const DecodedAttribute& decoded = entries_.attribute(attribute);
    // A location of a kind that is kept as text is unknown.
    const graph::LocationId id = decoded.location && !(*decoded.location == graph::Location{})
                                     ? module_.intern(*decoded.location)
                                     : graph::kNoLocation;
    locations_.emplace(attribute, id);
    return id;
  }

  void read_module(const EncodedOp& op, Reader& reader) {
    for (const auto& [key, value] : op.attributes) {
      if (key == "sym_name") {
        module_.name = op.text(key);
      } else if (key != "sym_visibility") {
        module_.attributes[key] = value->value;
      }
    }
    regions(op, reader, [&](Reader& from, bool has_block) {
      if (!has_block) return;
      for (size_t ops = block_header(from, nullptr); ops > 0; --ops) {
        const EncodedOp inner = read_op(from);
        if (inner.name.dialect == "vhlo" && inner.name.name == "func_v1") {
          read_function_or_note(inner, from);
        } else if (inner.name.dialect == "sdy" && inner.name.name == "mesh") {
          read_mesh(inner);
        } else {
          not_taken(inner, "in a module");
        }
      }
    });
  }

  void read_mesh(const EncodedOp& op) {
    graph::Dictionary meshes;
    if (const auto found = module_.attributes.find("sdy.meshes"); found != module_.attributes.end())
      meshes = *found->second.as_dictionary();
    const DecodedAttribute* mesh = op.find("mesh");
    if (!mesh) fail("sdy.mesh has no mesh");
    const auto* text = mesh->value.get<graph::Opaque>();
    graph::Dictionary rest;
    for (const auto& [key, value] : op.attributes)
      if (key != "mesh" && key != "sym_name" && key != "sym_visibility") rest[key] = value->value;
    // As the text form has it: the mesh and what else the program says about it.
    meshes[op.text("sym_name")] = text && !rest.empty()
                                      ? Attribute(graph::Opaque{fmt::format(
                                            "{} {}", text->text, graph::text::spelled_dictionary(rest, {}))})
                                      : mesh->value;
    module_.attributes["sdy.meshes"] = Attribute::dictionary(std::move(meshes));
  }

  static std::vector<graph::Dictionary> dictionaries(const DecodedAttribute* list, size_t count) {
    std::vector<graph::Dictionary> found;
    if (list && list->value.as_list())
      for (const Attribute& each : *list->value.as_list())
        found.push_back(each.as_dictionary() ? *each.as_dictionary() : graph::Dictionary{});
    found.resize(count);
    return found;
  }

  void read_function_or_note(const EncodedOp& op, Reader& reader) {
    const bool skippable = options_.refused && op.isolated && container_.version >= kWithSections;
    if (!skippable) return read_function(op, reader);
    Reader copy = reader;
    (void)read_section(reader);  // past the function, whatever it holds
    const size_t scopes = scopes_.size();
    const int depth = depth_;
    try {
      read_function(op, copy);
    } catch (const Fault& fault) {
      if (fault.kind() != FaultKind::kNotModelled) throw;
      options_.refused->emplace_back(op.text("sym_name"), fault.message());
      if (function_ && function_->name == op.text("sym_name")) module_.functions.pop_back();
      scopes_.resize(scopes);
      depth_ = depth;
    }
  }

  void read_function(const EncodedOp& op, Reader& reader) {
    std::string name = op.text("sym_name");
    if (module_.find(name)) fail(fmt::format("@{} is defined twice", name));
    Function& function = module_.add_function(std::move(name));
    function_ = &function;
    const std::string visibility = op.text("sym_visibility");
    function.is_public = visibility.empty() || visibility == "public";
    const DecodedAttribute* type = op.find("function_type");
    if (type && type->type && type->type->kind == DecodedType::Kind::kOther)
      throw Fault(FaultKind::kNotModelled, "vhlo.bytecode",
                  fmt::format("@{}: {}", function.name, type->type->name));
    if (!type || !type->type || type->type->kind != DecodedType::Kind::kFunction)
      fail(fmt::format("@{} has no function type", function.name));
    function.result_types = type->type->results;
    for (const auto& [key, value] : op.attributes) {
      const std::vector<std::string_view> own = vhlo_properties("func_v1");
      if (std::find(own.begin(), own.end(), key) == own.end()) function.attributes[key] = value->value;
    }
    if (op.regions != 1) fail(fmt::format("@{} has {} regions", function.name, op.regions));
    regions(op, reader, [&](Reader& from, bool has_block) {
      if (has_block) {
        read_block(function.body(), from);
      } else {
        for (const Type& input : type->type->inputs) function.add_argument(function.body(), input);
      }
    });
    if (function.argument_types() != type->type->inputs)
      fail(fmt::format("@{} takes other arguments than its type says", function.name));
    function.argument_attributes = dictionaries(op.find("arg_attrs"), function.arguments().size());
    function.result_attributes = dictionaries(op.find("res_attrs"), function.result_types.size());
  }

  void read_block(BlockId block, Reader& reader) {
    const size_t ops =
        block_header_with(reader, [&](const Type& type) { define(function_->add_argument(block, type)); });
    for (size_t i = 0; i < ops; ++i) {
      interrupt::poll();
      const EncodedOp op = read_op(reader);
      try {
        read_graph_op(op, block, reader);
      } catch (Fault& fault) {
        fault.set_location(module_.source(op.location));
        throw;
      }
    }
  }

  void read_graph_op(const EncodedOp& op, BlockId block, Reader& reader) {
    std::vector<ValueId> operands;
    for (const uint64_t number : op.operands) operands.push_back(use(number));
    if (op.name.dialect == "builtin" && op.name.name == "unrealized_conversion_cast") {
      // Between a type of VHLO and the same of builtin.
      if (operands.size() != op.results.size())
        fail("unrealized_conversion_cast with another number of results");
      for (size_t i = 0; i < operands.size(); ++i) {
        if (!(function_->type(operands[i]) == op.results[i]))
          fail("unrealized_conversion_cast changes a type");
        define(operands[i]);
      }
      return;
    }
    std::string target;
    std::optional<OpKind> kind;
    if (op.name.dialect == "vhlo") {
      const std::string_view base = versioned_name(op.name.name).base;
      kind = base == "call" ? OpKind::call_ : graph::op_kind_from_name("stablehlo." + std::string(base));
    } else if (op.name.dialect == "sdy" && op.name.name == "return") {
      kind = OpKind::return_;
    } else if (op.name.dialect == "sdy" &&
               (op.name.name == "sharding_constraint" || op.name.name == "reshard" ||
                op.name.name == "manual_computation")) {
      kind = OpKind::custom_call_;
      target = fmt::format("sdy.{}", op.name.name);
    }
    if (!kind) not_taken(op, "");
    const OpId id = function_->append(block, *kind, std::move(operands), {}, op.location);
    regions(op, reader, [&](Reader& from, bool has_block) {
      const BlockId inner = function_->add_block(id);
      if (has_block) read_block(inner, from);
    });
    for (const Type& type : op.results) define(function_->add_result(id, type));
    set_attributes(op, id, std::move(target));
  }

  void set_attributes(const EncodedOp& from, OpId id, std::string target) {
    graph::Op& op = function_->op(id);
    const graph::OpDefinition& defined = graph::definition(op.kind);
    if (!target.empty()) op.set(Attr::call_target_name, Attribute(std::move(target)));
    graph::Dictionary extra;
    for (const auto& [key, value] : from.attributes) {
      if (value->absent) continue;
      // Version 1 of dynamic_conv carried a padding beside the operand that has replaced it.
      if (op.kind == OpKind::dynamic_conv_ && key == "padding") continue;
      const auto attr = graph::attr_from_name(key);
      const graph::AttrSpec* spec = attr ? graph::find_spec(defined, *attr) : nullptr;
      if (spec && from.name.dialect == "vhlo") {
        op.set(*attr, graph::own_attribute(op.kind, *spec, value->value));
      } else {
        extra[key] = value->value;
      }
    }
    if (!extra.empty()) op.extra = std::make_shared<const graph::Dictionary>(std::move(extra));
    graph::drop_defaults(op);
  }

  const Container& container_;
  Entries entries_;
  Module module_;
  const VhloOptions& options_;
  Function* function_ = nullptr;
  std::vector<Scope> scopes_;
  std::unordered_map<uint64_t, graph::LocationId> locations_;
  int depth_ = 0;
  uint64_t values_ = 0;  // announced by all regions
};

}  // namespace

}  // namespace vhlo

graph::Module read_vhlo(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                        const VhloOptions& options) {
  const vhlo::Container container = vhlo::read_container(bytes);
  return vhlo::ModuleReader(container, std::move(owner), options).read();
}

}  // namespace opentrn::import
