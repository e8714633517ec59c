// OpenTrn's sampler over the cases of standard input: for each one line with the probability of every token.
//
// A case: temperature top_k top_p min_p repetition frequency presence, then vocabulary, prompt length, output
// length, and as many logits, prompt tokens, output tokens.
#include <iostream>
#include <vector>

#include "decoder/sampler.h"

int main() {
  using namespace opentrn::decoder;
  std::ios::sync_with_stdio(false);
  std::cout.precision(12);
  SamplingParams p;
  size_t vocabulary = 0, prompts = 0, outputs = 0;
  while (std::cin >> p.temperature >> p.top_k >> p.top_p >> p.min_p >> p.repetition_penalty >>
         p.frequency_penalty >> p.presence_penalty >> vocabulary >> prompts >> outputs) {
    std::vector<float> logits(vocabulary);
    std::vector<int32_t> prompt(prompts), output(outputs);
    for (float& logit : logits) std::cin >> logit;
    for (int32_t& token : prompt) std::cin >> token;
    for (int32_t& token : output) std::cin >> token;
    std::vector<double> probabilities(vocabulary, 0);
    for (const auto& [token, probability] : candidates(p, logits, prompt, output))
      probabilities[static_cast<size_t>(token)] = probability;
    for (const double probability : probabilities) std::cout << probability << ' ';
    std::cout << '\n';
  }
}
