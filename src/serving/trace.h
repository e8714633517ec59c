// Traces of requests: when each came, how long its prompt was and its answer.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "serving/request.h"

namespace opentrn::serving {

struct TraceRequest {
  Ps arrival = 0;
  int32_t prompt_tokens = 0;
  int32_t output_tokens = 0;
  PromptContent content;
};

struct Trace {
  std::string format;
  std::vector<TraceRequest> requests;  // by arrival; the first comes at 0
};

enum class TraceFormat : uint8_t {
  kDetect,
  kAzure,          // CSV TIMESTAMP,ContextTokens,GeneratedTokens: Azure's LLM inference datasets
  kMooncake,       // JSON lines: timestamp in ms, input_length, output_length, hash_ids of 512 tokens each
  kLlmServingSim,  // JSON lines: arrival_time_ns, input_toks, output_toks, input_tok_ids
  kPlain,          // CSV arrival_s,prompt_tokens,output_tokens
};

// "auto", "azure", "mooncake", "llmservingsim" or "plain"; input fault `serving.trace` for another.
TraceFormat trace_format_of(std::string_view name);

// Reads at most `limit` requests (0: all). Input fault `serving.trace` that names `name` and the line.
Trace read_trace(std::istream& in, const std::string& name, TraceFormat format = TraceFormat::kDetect,
                 size_t limit = 0);

}  // namespace opentrn::serving
