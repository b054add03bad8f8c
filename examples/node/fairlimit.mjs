// Turns in the queues of `fairlimit serve`, with nothing but fetch.
//
//	await turn('tax-office', { timeout: '30s' });
//	await callTheTaxOffice();
//
// To leave, abort the signal: the turn goes back, as it does if the program
// ends. At is where the server listens: fetch knows no unix sockets.

// Refused: the turn would come in waitMs, which is too late. Nothing was consumed.
export class Refused extends Error {
	constructor(waitMs) {
		super(`the turn would come in ${waitMs} ms`);
		this.waitMs = waitMs;
	}
}

// turn waits for a turn. Query is permits, timeout, flow and weight.
export async function turn(name, { at = 'http://127.0.0.1:7070', token, signal, ...query } = {}) {
	const url = `${at}/v1/queues/${encodeURIComponent(name)}/turn?${new URLSearchParams(query)}`;
	const headers = token ? { Authorization: `Bearer ${token}` } : {};
	const answer = await fetch(url, { method: 'POST', headers, signal });
	const told = await answer.json();
	if (answer.status === 409) throw new Refused(told.wait_ms);
	if (!answer.ok) throw new Error(`no turn: ${told.error}`);
	return told;
}
