#include "import/onnx/stages.h"

#include <algorithm>
#include <variant>

#include <fmt/format.h>

#include "base/fault.h"
#include "graph/element_value.h"
#include "graph/verify.h"
#include "import/onnx/importer.h"

namespace opentrn::import::onnx {

using graph::Function;
using graph::index_of;
using graph::Module;

// What a name of Progress stands for behind a stage: a constant, the answer to a question, or a slot's value,
// of which a question may count the leading rows.
struct Carried {
  struct Answer {
    size_t ask;
  };
  struct InSlot {
    Slot slot;
    Type type;
    std::optional<size_t> ask;
  };
  std::variant<Literal, Answer, InSlot> what;
  std::string name;
};

namespace {

// Shapes: what is larger and follows from constants is computed in this stage and handed on.
constexpr int64_t kFoldedMax = 1 << 12;

}  // namespace

// Makes a Stage of what an Importer did.
class StageMaker {
 public:
  StageMaker(std::shared_ptr<Source> source, Stage& stage, Progress progress)
      : source_(std::move(source)),
        stage_(stage),
        main_(stage.module.add_function("main")),
        importer_(*source_, stage.module, main_, std::move(progress), true) {}

  // The first stage.
  void start() {
    first_ = true;
    importer_.start();
    for (const ValueId argument : main_.arguments()) slot_of_[argument] = next_slot_++;
    for (const auto& [value, slot] : slot_of_) stage_.inputs.push_back(slot);
    std::sort(stage_.inputs.begin(), stage_.inputs.end());
    stage_.results.resize(source_->model.graph.outputs.size());
  }

  // A later one: names become constants and arguments.
  void resume(const Stage& before, const std::vector<Literal>& answers) {
    next_slot_ = before.slots_;
    stage_.results = before.results;
    Builder builder(stage_.module, main_, main_.body());
    std::vector<ValueId> values;
    for (const Carried& carried : before.carried_) {
      if (const auto* literal = std::get_if<Literal>(&carried.what)) {
        values.push_back(builder.constant(*literal));
      } else if (const auto* answer = std::get_if<Carried::Answer>(&carried.what)) {
        values.push_back(builder.constant(answers.at(answer->ask)));
      } else {
        const auto& held = std::get<Carried::InSlot>(carried.what);
        Type type = held.type;
        if (held.ask) {
          Dims dims = type.dims_vector();
          const Literal& count = answers.at(*held.ask);
          dims[0] = graph::load_integer(count.type().element(), count.element(0));
          type = Type::tensor(type.element(), std::move(dims));
        }
        const ValueId argument = main_.add_argument(main_.body(), type);
        main_.argument_attributes.back().emplace("onnx.name", Attribute(carried.name));
        importer_.name_argument(argument, carried.name);
        slot_of_[argument] = held.slot;
        stage_.inputs.push_back(held.slot);
        values.push_back(argument);
      }
    }
    for (Frame& frame : importer_.progress().frames)
      for (auto& [name, value] : frame.values)
        if (value) value = values.at(index_of(*value));
  }

  void finish() {
    importer_.run();
    const Progress& progress = importer_.progress();
    stage_.nodes_left = progress.left.size();
    if (first_ && importer_.questions().empty() && progress.left.empty()) return only();
    if (importer_.questions().empty() && !progress.left.empty())
      throw Fault(FaultKind::kInput, "onnx.order",
                  fmt::format("{} nodes wait for values that no node makes", progress.left.size()));
    for (const Importer::Question& question : importer_.questions()) ask(question);
    hand_on();
    take_results();
    Builder(stage_.module, main_, main_.body()).return_values(returned_);
    for (size_t i = 0; i < returned_.size(); ++i) {
      main_.result_types.push_back(main_.type(returned_[i]));
      main_.result_attributes.push_back({{"onnx.name", Attribute(names_[i])}});
    }
    importer_.drop_unused();
    if (!first_) drop_arguments();
    graph::verify(stage_.module);
    stage_.source_ = source_;
    stage_.slots_ = next_slot_;
  }

 private:
  // Values of which only the shape was of interest.
  void drop_arguments() {
    std::vector<bool> used(main_.value_count(), false);
    graph::walk(main_, main_.body(), [&](graph::OpId id) {
      for (const ValueId operand : main_.op(id).operands) used[index_of(operand)] = true;
    });
    std::vector<ValueId> kept;
    std::vector<Slot> slots;
    std::vector<graph::Dictionary> attributes;
    const auto& arguments = main_.block(main_.body()).arguments;
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!used[index_of(arguments[i])]) continue;
      main_.value(arguments[i]).index = static_cast<uint32_t>(kept.size());
      kept.push_back(arguments[i]);
      slots.push_back(stage_.inputs[i]);
      attributes.push_back(main_.argument_attributes[i]);
    }
    main_.block(main_.body()).arguments = std::move(kept);
    stage_.inputs = std::move(slots);
    main_.argument_attributes = std::move(attributes);
  }

  // A model without cuts, as import_file() makes it.
  void only() {
    importer_.check_known_dimensions();
    const size_t arguments = main_.arguments().size();
    importer_.finish();
    if (main_.arguments().size() < arguments) stage_.inputs.pop_back();
    for (auto& result : stage_.results) {
      stage_.outputs.push_back({next_slot_, std::nullopt});
      result = next_slot_++;
    }
    stage_.source_ = source_;
    stage_.slots_ = next_slot_;
  }

  Slot output(ValueId value, std::string name, std::optional<size_t> ask = std::nullopt) {
    if (!ask)
      if (const auto known = slot_of_.find(value); known != slot_of_.end()) return known->second;
    if (ask)
      for (size_t i = 0; i < returned_.size(); ++i)
        if (returned_[i] == value && stage_.outputs[i].ask == ask) return stage_.outputs[i].slot;
    const Slot slot = next_slot_++;
    if (!ask) slot_of_[value] = slot;
    returned_.push_back(value);
    names_.push_back(std::move(name));
    stage_.outputs.push_back({slot, ask});
    return slot;
  }

  void ask(const Importer::Question& question) {
    const size_t number = stage_.asks.size();
    if (!question.counts) answer_of_[question.value] = number;
    stage_.asks.push_back({question.name, question.counts, question.bound,
                           output(question.value, question.counts ? question.name + ".count" : question.name),
                           question.where, main_.type(question.value)});
    for (const ValueId argument : importer_.folder().arguments_of(question.value))
      stage_.asks.back().behind.push_back(slot_of_.at(argument));
  }

  // What the items that are left read.
  void hand_on() {
    const auto& progress = importer_.progress();
    auto kept = std::make_shared<Progress>();
    kept->left = progress.left;
    kept->cuts = progress.cuts;
    kept->draws = progress.draws;
    for (const Frame& frame : progress.frames) {
      Frame& copy = kept->frames.emplace_back(frame);
      std::erase_if(copy.values, [](const auto& row) { return row.second.has_value(); });
    }
    for (const Item& item : progress.left)
      for (const Name& name : importer_.uses(item)) carry(name, *kept);
    // Results may be states of a loop or names of a branch: what is known goes into a slot at once.
    stage_.progress_ = std::move(kept);
  }

  void carry(const Name& name, Progress& kept) {
    int frame = name.frame;
    while (frame >= 0 && !importer_.progress().frames[static_cast<size_t>(frame)].values.contains(name.name))
      frame = importer_.progress().frames[static_cast<size_t>(frame)].parent;
    if (frame < 0) return;
    const auto& value = importer_.progress().frames[static_cast<size_t>(frame)].values.at(name.name);
    auto& to = kept.frames[static_cast<size_t>(frame)].values;
    if (!value || to.contains(name.name)) return;
    to[name.name] = ValueId{static_cast<uint32_t>(carried(*value, frame, name.name))};
  }

  size_t carried(ValueId value, int frame, const std::string& name) {
    for (const Importer::Counted& counted : importer_.counted())
      if (counted.name == name && counted.frame == frame) {
        const Slot slot = output(value, name, counted.question);
        stage_.carried_.push_back({Carried::InSlot{slot, main_.type(value), counted.question}, name});
        return stage_.carried_.size() - 1;
      }
    const auto known = number_of_.find(value);
    if (known != number_of_.end()) return known->second;
    stage_.carried_.push_back({what(value, name), name});
    return number_of_[value] = stage_.carried_.size() - 1;
  }

  std::variant<Literal, Carried::Answer, Carried::InSlot> what(ValueId value, const std::string& name) {
    if (const auto answer = answer_of_.find(value); answer != answer_of_.end())
      return Carried::Answer{answer->second};
    const graph::OpId maker = main_.value(value).op;
    const bool constant = maker != graph::kNoOp && main_.op(maker).kind == OpKind::constant_;
    if (maker != graph::kNoOp && (constant || main_.type(value).element_count() <= kFoldedMax))
      if (const auto known = importer_.folder().fold(value)) return *known;
    return Carried::InSlot{output(value, name), main_.type(value), std::nullopt};
  }

  void take_results() {
    const auto& outputs = source_->model.graph.outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (stage_.results[i]) continue;
      const auto* found = importer_.find(0, outputs[i].name);
      if (found && *found) {
        stage_.results[i] = output(**found, outputs[i].name);
      } else if (!found || stage_.asks.empty()) {
        importer_.check_is_tensor(outputs[i]);
        throw Fault(FaultKind::kInput, "onnx.name",
                    fmt::format("graph output '{}' is made by no node before", outputs[i].name));
      }
    }
  }

  std::shared_ptr<Source> source_;
  Stage& stage_;
  Function& main_;
  Importer importer_;
  bool first_ = false;
  Slot next_slot_ = 0;
  std::map<ValueId, Slot> slot_of_;
  std::map<ValueId, size_t> answer_of_, number_of_;
  std::vector<ValueId> returned_;
  std::vector<std::string> names_;
};

namespace {

void check_answer(const Ask& ask, const Literal& answer) {
  if (!(answer.type() == ask.type))
    throw Fault(FaultKind::kInput, "onnx.answer",
                fmt::format("'{}' is {}, not {}", ask.name, ask.type.to_string(), answer.type().to_string()));
  if (!ask.counts) return;
  const int64_t count = graph::load_integer(answer.type().element(), answer.element(0));
  if (count < 0 || count > ask.bound)
    throw Fault(FaultKind::kInput, "onnx.answer",
                fmt::format("'{}' is {}; it is at most {}", ask.name, count, ask.bound));
}

std::shared_ptr<const Stage> begin(std::shared_ptr<Source> source) {
  auto stage = std::make_shared<Stage>();
  StageMaker maker(std::move(source), *stage, {});
  maker.start();
  maker.finish();
  return stage;
}

}  // namespace

Stage::Stage() = default;
Stage::~Stage() = default;

std::shared_ptr<const Stage> Stage::next(const std::vector<Literal>& answers) const {
  if (answers.size() != asks.size())
    throw Fault(FaultKind::kInput, "onnx.answer",
                fmt::format("{} answers to {} questions", answers.size(), asks.size()));
  for (size_t i = 0; i < asks.size(); ++i) check_answer(asks[i], answers[i]);
  auto stage = std::make_shared<Stage>();
  StageMaker maker(source_, *stage, *progress_);
  maker.resume(*this, answers);
  maker.finish();
  return stage;
}

std::shared_ptr<const Stage> first_stage(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                         const ExternalFolder& folder, const Options& options) {
  return begin(std::make_shared<Source>(bytes, std::move(owner), folder, options));
}

std::shared_ptr<const Stage> first_stage(const std::filesystem::path& path, const Options& options) {
  const auto file = MappedFile::open(path, "onnx.file");
  return first_stage(file->bytes(), file, ExternalFolder::of_model(path), options);
}

std::vector<ResultInfo> Stage::result_infos() const {
  std::vector<ResultInfo> infos;
  for (const ValueInfo& output : source_->model.graph.outputs) {
    ResultInfo info{output.name, element_type(output.element), {}, output.has_shape};
    for (const Dimension& dimension : output.shape) info.shape.push_back(dimension.value);
    infos.push_back(std::move(info));
  }
  return infos;
}

}  // namespace opentrn::import::onnx
