"""Check the worked examples of docs/lectures.md: python -m doctest docs/by_hand.py

Each example computes a figure of the table "Numbers by hand" with the program, and by arithmetic where that is short.

>>> import math, tempfile
>>> from pathlib import Path
>>> import torch
>>> import chainrule
>>> from chainrule import Lines, NGramConfig, train

Counts
------

A product of unigrams: i, say and potato occur twice each in 16 words.

>>> potatoes = Lines([
...     "i say tomato", "you say tomato", "i like potatoes",
...     "you like potatoes", "tomato tomato", "potato potato"])
>>> words = chainrule.Frequencies(potatoes, order=1, count_markers=False)
>>> words.total, words.prob("i") * words.prob("say") * words.prob("potato"), (2 / 16) ** 3
(16, 0.001953125, 0.001953125)

A unigram model multiplies four words and the end, 2, 1, 2, 3 and 3 of 11 tokens, in whatever order.

>>> presidents = train(
...     Lines(["Presidents tell lies .", "Presidents .", "lies ."]),
...     NGramConfig(order=1, smoothing="maximum-likelihood"), tokenizer="whitespace")
>>> presidents.score(["Presidents tell lies .", "lies tell Presidents ."]).round(6).tolist()
[-8.405957, -8.405957]
>>> round(math.log(2 * 1 * 2 * 3 * 3 / 11 ** 5), 6)
-8.405957

A longer context was seen less often.

>>> going = chainrule.Frequencies(Lines([
...     "I want to go to bed", "I have to go to work", "you want to go to work", "we go to work",
...     "to be or not to be"]), order=5)
>>> going.followers("to")
{'go': 3, 'work': 3, 'be': 2, 'bed': 1}
>>> going.followers("go", "to")
{'work': 3, 'bed': 1}
>>> going.followers("to", "go", "to")
{'work': 2, 'bed': 1}
>>> going.followers("want", "to", "go", "to")
{'bed': 1, 'work': 1}

A unigram model cannot see order; a bigram model has never seen "the the". With Laplace smoothing, each "the" has the
probability 6/33, every other word of these 2/33, and the end 4/33.

>>> ice = Lines(["I want ice cream", "the dog saw the cat", "the cat saw the bird by the tree"])
>>> sentences = ["the the the the", "I want ice cream"]
>>> unigram = train(ice, NGramConfig(order=1, smoothing="laplace"))
>>> unigram.score(sentences).round(2).tolist()
[-8.93, -13.32]
>>> round(4 * math.log(6 / 33) + math.log(4 / 33), 2), round(4 * math.log(2 / 33) + math.log(4 / 33), 2)
(-8.93, -13.32)
>>> bigram = train(ice, NGramConfig(order=2, smoothing="witten-bell"))
>>> the, cream = bigram.score(sentences)
>>> bool(the < cream)
True

Smoothing
---------

Maximum likelihood, Laplace, Lidstone: "visited" was followed by Maui twice, by class and campus once. Six tokens,
<unk> and </s> among them, share what is added.

>>> visits = Lines(["visited Maui", "visited Maui", "visited class", "visited campus"])
>>> def after_visited(**settings):
...     model = train(visits, NGramConfig(order=2, **settings), tokenizer="whitespace")
...     return {token: round(p, 4) for token, p in model.next("visited", 4)}
>>> after_visited(smoothing="maximum-likelihood")
{'Maui': 0.5, 'class': 0.25, 'campus': 0.25}
>>> laplace = after_visited(smoothing="laplace")
>>> laplace["Maui"], laplace["class"]  # 3/10 and 2/10
(0.3, 0.2)
>>> after_visited(smoothing="lidstone", pseudocount=0.5)["Maui"]  # 2.5/7
0.3571

Absolute discounting by 0.2 leaves 1.8, 0.8 and 0.8 of the counts. The 0.6 that it takes, 0.15 of the 4, goes to the
lower order, in which Maui is 2 of 12 tokens.

>>> after_visited(smoothing="absolute", discount=(0.0, 0.2))
{'Maui': 0.475, 'class': 0.2125, 'campus': 0.2125, '</s>': 0.05}
>>> [round(count / 4 + 0.15 * lower / 12, 4) for count, lower in ((1.8, 2), (0.8, 1), (0.8, 1), (0, 4))]
[0.475, 0.2125, 0.2125, 0.05]

Interpolation takes 0.7 of the bigram's relative frequency and 0.3 of the unigram's.

>>> after_visited(smoothing="jelinek-mercer", weights=(0.3, 0.7))
{'Maui': 0.4, 'class': 0.2, 'campus': 0.2, '</s>': 0.1}
>>> [round(0.7 * count / 4 + 0.3 * lower / 12, 4) for count, lower in ((2, 2), (1, 1), (1, 1), (0, 4))]
[0.4, 0.2, 0.2, 0.1]

Mixing corpora
--------------

PaLM's six sources, in its shares by bytes. Each document is used at most once, so the source that is scarcest for its
share is used whole.

>>> folder = Path(tempfile.mkdtemp())
>>> shares = {"social": 50, "web": 27, "books": 13, "code": 5, "wiki": 4, "news": 1}
>>> for name in shares:
...     _ = (folder / f"{name}.txt").write_text(f"{name:>6}\\n" * 1000)
>>> text = train(chainrule.Mix.of({str(folder / f"{name}.txt"): share / 100 for name, share in shares.items()}))
>>> {Path(part["sources"][0]).stem: part["documents"] for part in text.record["mix"]["texts"]}
{'social': 1000, 'web': 540, 'books': 260, 'code': 100, 'wiki': 80, 'news': 20}

Vectors, gates and gradients
----------------------------

A log-bilinear model has a vector for each word as context and one as prediction; P(w | c) is the softmax of v · c.

>>> context, predicted = torch.tensor([1.0, 2.0]), torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 1.0]])
>>> (predicted @ context).tolist()
[1.0, 2.0, 1.0]
>>> [round(p, 4) for p in (predicted @ context).softmax(0).tolist()]  # e / (e + e² + e), ...
[0.2119, 0.5761, 0.2119]

A look-up is a product: a one-hot vector times a matrix is one of its rows.

>>> M = torch.tensor([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
>>> one_hot = torch.tensor([0.0, 1.0, 0.0])
>>> [round(x, 2) for x in (one_hot @ M).tolist()]
[0.3, 0.4]
>>> bool(torch.equal(one_hot @ M, torch.nn.functional.embedding(torch.tensor(1), M)))
True

A gate multiplies element by element.

>>> [round(x, 4) for x in (torch.tensor([3.0, 7, 2, 9]) * torch.tensor([0.1, 0.8, 0.9, 0.2])).tolist()]
[0.3, 5.6, 1.8, 1.8]

tanh is flat away from 0: its slope is 1 - tanh²(x).

>>> x = torch.tensor([0.0, 2.0], requires_grad=True)
>>> torch.tanh(x).sum().backward()
>>> [round(slope, 2) for slope in x.grad.tolist()]
[1.0, 0.07]

A step of the simple recurrent cell, and the LSTM's formulas against torch's cell.

>>> from chainrule.neural.layers import cells
>>> step = cells.rnn(torch.tensor([[1.0]]), torch.tensor([[0.5]]), cells.Weights(
...     torch.tensor([[2.0]]), torch.tensor([[-1.0]]), torch.zeros(1), torch.zeros(1)))
>>> round(step.item(), 4) == round(math.tanh(2.0 * 1.0 - 1.0 * 0.5), 4)
True
>>> _ = torch.manual_seed(1)
>>> lstm = torch.nn.LSTMCell(3, 4)
>>> weights = cells.Weights(lstm.weight_ih, lstm.weight_hh, lstm.bias_ih, lstm.bias_hh)
>>> x, h, c = torch.randn(2, 3), torch.randn(2, 4), torch.randn(2, 4)
>>> pairs = zip(cells.lstm(x, h, c, weights), lstm(x, (h, c)))
>>> all(torch.allclose(ours, theirs, atol=1e-6) for ours, theirs in pairs)
True

Clipping scales a gradient down to the threshold and keeps its direction.

>>> weight = torch.zeros(2, requires_grad=True)
>>> weight.grad = torch.tensor([3.0, 4.0])
>>> round(torch.nn.utils.clip_grad_norm_([weight], 1.0).item(), 4), [round(g, 4) for g in weight.grad.tolist()]
(5.0, [0.6, 0.8])

The code on the slide divides by the squared norm. The result is too small by a factor of 5; and a gradient of norm 0.9
is not clipped to the threshold 0.85, since its square, 0.81, is below.

>>> gradient, threshold = torch.tensor([3.0, 4.0]), 1.0
>>> squared = (gradient * gradient).sum()
>>> [round(g, 4) for g in (threshold / squared * gradient).tolist()]
[0.12, 0.16]
>>> [round(g, 4) for g in (threshold / squared.sqrt() * gradient).tolist()]
[0.6, 0.8]

Attention
---------

Self-attention: W^Q = [[0, 1], [0, 1]] turns every vector into [0, 1], and W^K = I leaves the keys unchanged. Row by
row, the softmax of Q Kᵀ gives e / (e + 3) to the third vector.

>>> E = torch.tensor([[1.0, 0], [1, 0], [0, 1], [1, 0]])
>>> Q, K = E @ torch.tensor([[0.0, 1], [0, 1]]), E @ torch.eye(2)
>>> (Q @ K.T)[0].tolist()
[0.0, 0.0, 1.0, 0.0]
>>> A = (Q @ K.T).softmax(1)
>>> [round(a, 4) for a in A[0].tolist()]
[0.1749, 0.1749, 0.4754, 0.1749]
>>> [[round(x, 4) for x in row] for row in (A @ E).tolist()]
[[0.5246, 0.4754], [0.5246, 0.4754], [0.5246, 0.4754], [0.5246, 0.4754]]

With the causal mask no row looks ahead: the first two see only [1, 0], the third has e / (e + 2) on itself.

>>> from chainrule.neural.layers.attention import attend_by_score, build_score
>>> dot = build_score("dot", heads=1, width=2, longest=4)
>>> causal = torch.ones(4, 4, dtype=torch.bool).tril()
>>> output = attend_by_score(dot, Q[None, None], K[None, None], E[None, None], causal)
>>> [[round(x, 4) for x in row] for row in output[0, 0].tolist()]
[[1.0, 0.0], [1.0, 0.0], [0.4239, 0.5761], [0.5246, 0.4754]]

Dilution: one key with the score 1, then 10, among n - 1 keys with 0.

>>> [round(math.exp(1) / (math.exp(1) + n - 1), 3) for n in (4, 16, 64, 1000)]
[0.475, 0.153, 0.041, 0.003]
>>> [round(math.exp(10) / (math.exp(10) + n - 1), 3) for n in (4, 16, 64, 1000)]
[1.0, 0.999, 0.997, 0.957]

Why queries and keys differ: with one matrix for both, a word attends most to itself if all vectors have one length.

>>> vectors = torch.tensor([[2.0, 0, 0], [1.2, 1.6, 0], [0, 1.2, 1.6]])
>>> weights = (vectors @ vectors.T).softmax(1)
>>> [[round(x, 2) for x in row] for row in weights.tolist()]
[[0.82, 0.17, 0.02], [0.15, 0.75, 0.09], [0.02, 0.11, 0.87]]

Why several heads: one query with equal scores on two words gives their mean; two heads keep both words.

>>> left, right = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
>>> both = torch.stack((left, right))
>>> (torch.tensor([20.0, 20.0]).softmax(0) @ both).tolist()
[0.5, 0.5]
>>> one, other = (scores.softmax(0) @ both for scores in (torch.tensor([20.0, 0.0]), torch.tensor([0.0, 20.0])))
>>> [round(x, 4) for x in torch.cat((one, other)).tolist()]
[1.0, 0.0, 0.0, 1.0]

Thinking Machines: W^Q is twice the first two numbers of a word, W^K the last two, W^V twice the first two. Scores are
divided by √2. docs/thinking_machines.py draws the steps.

>>> words = torch.tensor([[1.0, 0, 1, 0], [0, 1, 0, 1]])  # Thinking, Machines
>>> first, last = torch.eye(4)[:, :2], torch.eye(4)[:, 2:]
>>> q, k, v = words @ (2 * first), words @ last, words @ (2 * first)
>>> q.tolist(), k.tolist(), v.tolist()
([[2.0, 0.0], [0.0, 2.0]], [[1.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [0.0, 2.0]])
>>> scores = q @ k.T / math.sqrt(2)
>>> [[round(x, 4) for x in row] for row in scores.tolist()]
[[1.4142, 0.0], [0.0, 1.4142]]
>>> weights = scores.softmax(1)
>>> [round(x, 4) for x in weights[0].tolist()], round(math.exp(math.sqrt(2)) / (math.exp(math.sqrt(2)) + 1), 4)
([0.8044, 0.1956], 0.8044)
>>> z = weights @ v
>>> [[round(x, 4) for x in row] for row in z.tolist()]
[[1.6089, 0.3911], [0.3911, 1.6089]]

Positions
---------

Sinusoids of width 4 are sin(k), cos(k), sin(k / 100), cos(k / 100). Their dot products depend on the distance alone.

>>> from chainrule.neural.layers.positions import ALiBi, Sinusoidal, alibi_slopes
>>> vectors = Sinusoidal(4)(torch.arange(4)[None])[0]
>>> [round(x, 4) for x in vectors[1].tolist()]
[0.8415, 0.5403, 0.01, 0.9999]
>>> [round(x, 4) for x in (vectors @ vectors[0]).tolist()]  # cos(k) + cos(k / 100)
[2.0, 1.5403, 0.5837, 0.0096]
>>> round((vectors[1] @ vectors[2]).item(), 4)
1.5403

ALiBi subtracts the distance times the slope of the head.

>>> alibi_slopes(2)
[0.0625, 0.00390625]
>>> ALiBi(2)(torch.tensor([[3, 2, 1, 0]]))[0].tolist()
[[-0.1875, -0.125, -0.0625, -0.0]]

The cost of a layer
-------------------

>>> n, d, k, r = 50, 1000, 3, 10
>>> {"self-attention": n * n * d, "recurrence": n * d * d, "convolution": k * n * d * d, "window": r * n * d}
{'self-attention': 2500000, 'recurrence': 50000000, 'convolution': 150000000, 'window': 500000}

Search
------

A beam finds what greedy search cannot: 0.6 · 1/3 = 0.2 for "a c", 0.4 · 1 for "b f".

>>> forks = train(
...     Lines(["a c", "a d", "a e"] * 2 + ["b f"] * 4), NGramConfig(order=2, smoothing="maximum-likelihood"))
>>> for size in (1, 2):
...     [best] = forks.beam(search=chainrule.BeamConfig(size=size))
...     print(size, best.text, round(math.exp(best.log_prob), 4))
1 a c 0.2
2 b f 0.4

PaLM's architecture
-------------------

>>> palm = chainrule.preset("palm")
>>> palm.feed_forward, palm.key_value_heads, palm.parallel, palm.positions
('swiglu', 1, True, 'rotary')
"""
