// Nodes of an ONNX model to ops of a function: what onnx.cc and stages.cc share.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "import/onnx/fold.h"
#include "import/onnx/frame.h"
#include "import/onnx/node.h"
#include "import/onnx/onnx.h"
#include "import/onnx/tensor.h"

namespace opentrn::import::onnx {

using graph::Module;

// A model as it was read. Frames and items point into it.
class Source {
 public:
  Source(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, ExternalFolder folder,
         Options options)
      : model(read_model(bytes)),
        tensors(std::move(folder), std::move(owner), options.files),
        names(names_used(model)),
        options(std::move(options)) {}

  const Model model;
  TensorReader tensors;
  const std::set<std::string> names;  // that anything uses
  const Options options;
};

// A domain that is nobody's but the model's.
bool is_custom(std::string_view domain);

// Thrown to leave an importer function: the node waits for the next stage (stages.h).
struct Later {};
// The same inside a loop or branch whose ops are being made: whoever makes them has to do it otherwise.
struct LaterInside {};

class Importer {
 public:
  // What the next stage's shapes depend on, and what it counts.
  struct Question {
    ValueId value;
    bool counts = false;
    int64_t bound = 0;
    std::string name, where;
  };
  // Rows that a question counts, by the hidden name that stands for them.
  struct Counted {
    std::string name;
    int frame;
    size_t question;
  };

  // `in_stages`: what depends on data is asked for, in place of a fault.
  Importer(Source& source, Module& module, graph::Function& main, Progress progress, bool in_stages)
      : source_(source),
        module_(module),
        main_(main),
        folder_(module, main),
        progress_(std::move(progress)),
        in_stages_(in_stages) {}

  // The model's inputs and constants, and its nodes as what is left to do.
  void start();
  // Input fault for a size that is given and of no dimension of the inputs. A model in stages may have sizes
  // for numbers of rows in it too.
  void check_known_dimensions() const;
  // Imports what is left as far as it goes.
  void run();
  // Returns the model's results, of a model of which nothing is left to do.
  void finish();
  // Refuses a result that is a sequence or holds nothing.
  void check_is_tensor(const ValueInfo& output) const;
  void drop_unused();
  // Of a model that turned out to draw nothing. False: there is none, or it is used.
  bool drop_random_key();

  Progress& progress() { return progress_; }
  Folder& folder() { return folder_; }
  const std::vector<Question>& questions() const { return questions_; }
  const std::vector<Counted>& counted() const { return counted_; }
  // The value behind a name, seen from `frame`: null where there is none, nothing where a later stage has it.
  const std::optional<ValueId>* find(int frame, std::string_view name) const;
  void add_uses(const Name& name, std::vector<Name>& names) const;
  // The names that an item reads.
  std::vector<Name> uses(const Item& item) const;
  void name_argument(ValueId argument, std::string name) {
    argument_names_[static_cast<uint32_t>(argument)] = std::move(name);
  }

 private:
  class NodeSurroundings;

  void check_opsets() const;
  void add_initializers(const Graph& graph, Frame& frame, Builder& builder);
  void add_inputs(Frame& frame, Builder& builder);
  Type type_of_input(const ValueInfo& input) const;
  Type input_type(const ValueInfo& input) const;
  int64_t size_of(const ValueInfo& input, size_t i) const;
  void check_dimensions() const;
  Values import_subgraph(const Graph& graph, const Values& inputs, int around, Builder& builder,
                         std::optional<ValueId> iteration);
  void add_random_key(Frame& frame);
  ValueId random_state(std::optional<float> seed, Builder& builder);
  // `main`: items may be left for a later stage; inside a region they may not.
  void run(std::deque<Item> work, Builder& builder, bool main);
  void step(Item& item, Builder& builder, std::deque<Item>& work, bool main);
  void defer(Item item);
  bool is_ready(const Item& item) const;
  void import_node(Item& item, Builder& builder, std::deque<Item>& work, bool main);
  void import_by_row(const OpRow& row, Item& item, int64_t version, Builder& builder);
  bool expand_if(Item& item, Builder& builder, std::deque<Item>& work);
  void expand_graph(const Graph& graph, int frame, const std::vector<Name>& outputs,
                    std::deque<Item>& work) const;
  void unroll(Item& item, Builder& builder, std::deque<Item>& work);
  const std::vector<Name>* find_sequence(int frame, std::string_view name) const;
  void set_sequence(const Name& name, std::vector<Name> elements);
  std::vector<Name> sequence_of(const Item& item, size_t i) const;
  // A whole number that is an input; asked for where it is not known.
  std::optional<int64_t> known_integer(const Item& item, size_t i);
  size_t sequence_place(const Item& item, size_t i, size_t size, int64_t absent);
  // False: the node is none of sequences or optional values.
  bool import_sequence(Item& item, Builder& builder, std::deque<Item>& work);
  bool import_optional(Item& item, Builder& builder, std::deque<Item>& work);
  void split_to_sequence(Item& item, Builder& builder);
  ValueId concat_from_sequence(const Item& item, Builder& builder);
  void sequence_map(Item& item, Builder& builder, std::deque<Item>& work);
  Name owner_of(Name name) const;
  // A new name for a value.
  Name hidden(int frame, ValueId value, std::string_view what);
  bool reads_sequence(const Item& item) const;
  void unroll_scan(Item& item, Builder& builder, std::deque<Item>& work);
  void next_iteration(Item& item, Builder& builder, std::deque<Item>& work);
  void end_loop(const Item& item, Builder& builder);
  const FunctionProto* find_function(const NodeProto& node) const;
  std::vector<std::optional<ValueId>> operands(const Item& item) const;
  void import_custom(const Item& item, Builder& builder);
  static Literal custom_operand(const NodeProto& node, const AttributeValue& attribute);
  Type stated_type(const NodeProto& node, const std::string& output) const;
  const AttributeValue* find_attribute(const NodeProto& node, std::string_view name, int frame) const;
  void bind_outputs(const Item& item, const Node& context);
  void call_function(const FunctionProto& function, const Item& item, std::deque<Item>& work);
  int add_frame(int parent, int like);
  // Asks for the value of `value` in the next stage, and leaves. Returns when it cannot be asked for.
  void ask(ValueId value, const Item& item);
  Values cut(Item& item, Builder& builder, const std::function<CountedRows()>& make);
  std::string size_name(const Item& item) const;
  void captured(const Graph& graph, int frame, std::vector<Name>& names) const;

  Source& source_;
  Module& module_;
  graph::Function& main_;
  Folder folder_;
  Progress progress_;
  bool in_stages_;
  std::vector<Question> questions_;
  std::vector<Counted> counted_;
  std::vector<ValueId> iterations_;  // of the loops whose bodies are being made, the outermost first
  std::map<uint32_t, std::string> argument_names_;
};

}  // namespace opentrn::import::onnx
