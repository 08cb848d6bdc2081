"""Neural language models: P(w_i | w_<i) = softmax(U f(w_1 .. w_i-1)). All but `config` imports torch."""
