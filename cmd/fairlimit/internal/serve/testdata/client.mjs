// Uses the client as a program does. The test gives $FAIRLIMIT_URL, and the token.
const { turn, Refused } = await import('../../../../../examples/node/fairlimit.mjs');

const [token, act] = process.argv.slice(2);
if (act === 'wait') {
	console.log('went', (await turn('a/b ü', { token })).waitedMs);
} else if (act === 'try') {
	await turn('a/b ü', { token, timeout: '1s' }).catch(problem => {
		console.log('refused', problem instanceof Refused && problem.waitMs > 3.5e6);
	});
} else {
	const t = await turn('llm', { token, tokens: act === 'settle' ? 1200 : 1 });
	try {
		if (act === 'settle') t.used.tokens = 700;
		else t.used.points = 1; // what cannot be settled is a warning
		if (act === 'fail') throw new TypeError();
	} catch {
		console.log('own error');
	} finally {
		await t[Symbol.asyncDispose]();
	}
}
