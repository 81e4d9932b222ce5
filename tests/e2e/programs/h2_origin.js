// An HTTP/2 origin that does as the path says: node h2_origin.js CERT KEY ADDRESS [h1]
const http2 = require('http2'), fs = require('fs');
const [cert, key, address, h1] = process.argv.slice(2);
const server = http2.createSecureServer({cert: fs.readFileSync(cert), key: fs.readFileSync(key), allowHTTP1: h1 === 'h1'});
let sessions = 0, cancelled = 0, finished = 0, pinged = 0;
server.on('session', () => { sessions++; });
const routes = {
  '/echo'(stream, headers) {
    const parts = [];
    stream.on('data', d => parts.push(d));
    stream.on('end', () => {
      const body = Buffer.concat(parts);
      stream.respond({':status': 200, 'content-type': 'application/json'});
      stream.end(JSON.stringify({headers, raw: headers[http2.sensitiveHeaders], body: body.length < 2000 ? body.toString() : '', n: body.length,
        sha: require('crypto').createHash('sha256').update(body).digest('hex'), trailers: stream.sentTrailersSeen}));
    });
    stream.on('trailers', t => { stream.sentTrailersSeen = t; });
  },
  '/trailers'(stream) {
    stream.respond({':status': 200, 'content-type': 'application/grpc'}, {waitForTrailers: true});
    stream.on('wantTrailers', () => stream.sendTrailers({'grpc-status': '0', 'x-last': 'yes'}));
    stream.end('body');
  },
  '/trailers-only'(stream) {
    stream.respond({':status': 200, 'content-type': 'application/grpc', 'grpc-status': '5', 'grpc-message': 'none'}, {endStream: true});
  },
  '/interim'(stream) {
    stream.additionalHeaders({':status': 103, link: '</a.css>'});
    stream.additionalHeaders({':status': 103, link: '</b.css>'});
    stream.respond({':status': 200});
    stream.end('done');
  },
  '/early'(stream) {
    stream.respond({':status': 200, 'content-length': 5});
    stream.end('early', () => stream.close(http2.constants.NGHTTP2_NO_ERROR));
  },
  '/big'(stream) {
    stream.respond({':status': 200, 'content-length': 8 << 20});
    stream.end(Buffer.alloc(8 << 20, 'z'));
  },
  '/late-end'(stream) {
    stream.respond({':status': 200, 'content-length': 4});
    stream.write('four');
    setImmediate(() => stream.end());
  },
  '/broken'(stream) {
    stream.respond({':status': 200});
    stream.write('half', () => stream.destroy(new Error('broken')));
  },
  '/hang'(stream) {
    stream.on('aborted', () => { cancelled++; });
    stream.on('close', () => { finished++; });
    stream.respond({':status': 200});
    stream.write('begun');
  },
  '/goaway'(stream) {
    // The next one is refused: it was not looked at, and may be sent again.
    stream.respond({':status': 200});
    stream.end('going', () => stream.session.goaway(0));
  },
  '/refuse'(stream) {
    if (!routes.refused) { routes.refused = true; stream.close(http2.constants.NGHTTP2_REFUSED_STREAM); return; }
    stream.respond({':status': 200});
    stream.end('second');
  },
  '/ping-later'(stream) {
    const session = stream.session;
    stream.respond({':status': 200});
    stream.end('later');
    stream.on('close', () => setImmediate(() => session.ping(() => { pinged++; })));
  },
  '/counts'(stream) {
    stream.respond({':status': 200});
    stream.end(JSON.stringify({sessions, cancelled, finished, pinged}));
  },
};
server.on('stream', (stream, headers) => {
  stream.on('error', () => {});
  const path = headers[':path'].split('?')[0];
  if (headers[':method'] === 'HEAD') { stream.respond({':status': 200, 'content-length': 1488324}, {endStream: true}); return; }
  (routes[path] || routes['/echo'])(stream, headers);
});
server.on('sessionError', () => {});
server.listen(443, address, () => console.log('ready'));
