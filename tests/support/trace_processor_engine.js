// Runs Perfetto's trace_processor, the WebAssembly of its UI, without a browser.
// usage: node engine.js DIRECTORY   (the UI's version directory, which holds engine_bundle.js)
//
// stdin takes and stdout gives serialized TraceProcessorRpcStream messages. The bundle is a web
// worker: it is given what one finds around it, and nothing that looks like Node.
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const directory = process.argv[2];

// Workers fetch their WebAssembly synchronously.
class FileRequest {
  open(method, name) {
    this.path = path.join(directory, path.basename(name));
  }
  send() {
    this.response = fs.readFileSync(this.path);
  }
}

function writeReply(reply) {
  for (let done = 0; done < reply.length;) {
    try {
      done += fs.writeSync(1, reply, done);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
    }
  }
}

function startWorker(port) {
  const worker = {
    console: {log: console.error, warn: console.error, error: console.error},
    WorkerGlobalScope: class {},
    XMLHttpRequest: FileRequest,
    importScripts() {},
    location: {href: 'http://localhost/engine_bundle.js'},
    TextDecoder, TextEncoder, URL, Uint8Array, crypto: require('crypto').webcrypto, performance,
    // One realm: errors that WebAssembly throws are recognised by their type.
    TypeError, WebAssembly,
  };
  worker.self = worker;
  const bundle = path.join(directory, 'engine_bundle.js');
  vm.runInContext(fs.readFileSync(bundle, 'utf8'), vm.createContext(worker));
  worker.onmessage({data: port});
}

process.on('uncaughtException', (error) => {
  // Its own text would quote the bundle, which is one line of 150 kB.
  console.error(String(error.stack).slice(0, 2000));
  process.exit(1);
});
const port = {postMessage: writeReply};
startWorker(port);
// The worker sets itself up in promises, which come before this.
setImmediate(() => {
  process.stdin.on('data', (bytes) => port.onmessage({data: new Uint8Array(bytes)}));
});
