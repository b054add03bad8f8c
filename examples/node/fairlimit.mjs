// Turns in the queues of `fairlimit serve`, with nothing but fetch.
//
//	await using t = await turn('openai', { timeout: '30s', tokens: 1200 });
//	t.used.tokens = await callOpenAI(); // settled at the end of the block
//
// A Node that does not know `await using`, which is any before 24, calls
// t[Symbol.asyncDispose]() in a finally block. What used does not name counts as
// it was asked for. If the settling fails, that is a warning: what the block did
// stands.
//
// To leave, abort the signal: the turn goes back, as it does if the program
// ends. At is where the server listens, else $FAIRLIMIT_URL says it; fetch knows
// no unix sockets.

const defaultAt = process.env.FAIRLIMIT_URL || 'http://127.0.0.1:7070';

// Refused: the turn would come in waitMs, which is too late. Nothing was consumed.
export class Refused extends Error {
	constructor(waitMs) {
		super(`the turn would come in ${waitMs} ms`);
		this.waitMs = waitMs;
	}
}

// turn waits for a turn. Query is permits, timeout, flow and weight, or a unit.
export async function turn(name, { at = defaultAt, token, signal, ...query } = {}) {
	const post = async (path, query, signal) => {
		const headers = token ? { Authorization: `Bearer ${token}` } : {};
		const answer = await fetch(`${at}/v1/${path}?${new URLSearchParams(query)}`, { method: 'POST', headers, signal });
		const told = await answer.json();
		if ('wait_ms' in told) throw new Refused(told.wait_ms);
		if (!answer.ok) throw new Error(told.error);
		return told;
	};
	const told = await post(`queues/${encodeURIComponent(name)}/turn`, query, signal);
	const used = {};
	return {
		waitedMs: told.waited_ms,
		used,
		async [Symbol.asyncDispose]() {
			if (Object.keys(used).length === 0) return;
			try {
				await post(`turns/${told.turn}/settle`, used);
			} catch (problem) { // must not hide what the block did
				console.warn('the turn was not settled:', problem.message);
			}
		},
	};
}
